"""Native packages (.ptn): they are loaded and run like a .pte, with the results of eager; damage is
an exception that says where."""

import io
import json
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error, InvalidProgramError, Runtime
from tests.resident import mapping

FOLDER = Path(__file__).parent / "native_packages"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ptn"))
Members = dict[str, bytes]


def steps(name: str) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Return the inputs of the recorded calls, and eager's outputs."""
    calls: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    with np.load(FOLDER / f"{name}.npz") as file:
        for key in sorted(file, key=lambda key: (len(key), key)):
            step, kind = re.fullmatch(r"(?:step(\d+)_)?(in|out)\d+", key).groups()  # type: ignore
            calls.setdefault(step or "0", ([], []))[kind == "out"].append(file[key])
    return [calls[step] for step in sorted(calls)]


def check(method: executorch_c.Method, name: str) -> None:
    for inputs, outputs in steps(name):
        for actual, expected in zip(method.execute(inputs), outputs, strict=True):
            assert actual.dtype == expected.dtype
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"kernels": "reference"}], ids=["default", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_a_package_equals_eager(name: str, options: dict[str, Any]) -> None:
    path = FOLDER / f"{name}.ptn"
    check(executorch_c.load(path).load_method("forward", **options), name)
    check(Runtime.get().load_program(path.read_bytes()).load_method("forward"), name)


def test_a_package_is_described() -> None:
    """Constants are named data in the file; state is memory with an initial value."""
    path = FOLDER / "state.ptn"
    program = executorch_c.load(path)
    info = program.info()
    assert info["file_size"] == path.stat().st_size
    assert program.requirements()["missing_operators"] == []
    [method] = info["methods"]
    assert method["delegates"] == []
    assert "aten::copy_" in [row["name"] for row in method["operators"]]
    assert {row["key"] for row in info["named_data"]} == set(header(members("state")))
    with pytest.raises(executorch_c.NotFoundError, match=r"no method 'other'; .* 'forward'"):
        program.load_method("other")


def test_state_is_reset_saved_and_restored() -> None:
    method = executorch_c.load(FOLDER / "state.ptn").load_method("forward")
    check(method, "state")
    saved = method.get_state()
    method.reset()
    check(method, "state")
    np.testing.assert_equal(method.get_state(), saved)


# ---- the flow -----------------------------------------------------------------------------------

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir.native")

from torch import nn


def export(models: dict[str, tuple[nn.Module, tuple[Any, ...], Any]], path: Path) -> Path:
    """Write the package of methods: a module, example inputs, dynamic shapes."""
    from executorch.exir.native.native import to_native

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        to_native(
            {
                name: torch.export.export(model.eval(), inputs, dynamic_shapes=shapes)
                for name, (model, inputs, shapes) in models.items()
            }
        ).save(str(path))
    return path


class Writer(nn.Module):
    """A cache, which begins with values, and an operator in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.linspace(-1, 1, 32).reshape(8, 4))

    def forward(self, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.cache.index_put_((at,), x)
        return (self.cache * 2).relu_()


class Reader(nn.Module):
    """A method that only reads the cache of another, and has its own state."""

    def __init__(self, cache: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("cache", cache)
        self.register_buffer("old", torch.full((4,), 3.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old = self.old.clone()
        self.old.copy_(self.cache.sum(0))
        return old + 0, self.cache.mean(0) + x


def test_methods_share_state(tmp_path: Path) -> None:
    writer = Writer()
    reader = Reader(writer.cache)
    calls = {
        "write": (writer, (torch.tensor([1, 3]), torch.randn(2, 4)), None),
        "read": (reader, (torch.randn(4),), None),
    }
    path = export(calls, tmp_path / "model.ptn")
    program = Runtime.get().load_program(path, share_mutable_buffers=False)
    for name in ("read", "write", "read", "write", "read"):
        model, inputs, _ = calls[name]
        expected = model(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for actual, value in zip(program.load_method(name).execute(inputs), expected, strict=True):
            np.testing.assert_allclose(actual, value, rtol=1e-6)


class Shared(nn.Module):
    """A method with a large weight."""

    def __init__(self, weight: nn.Parameter, activation: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.weight, self.activation = weight, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(nn.functional.linear(x, self.weight))


def test_constants_are_read_when_a_method_needs_them(tmp_path: Path) -> None:
    """The copy at an aligned address is the program's, not one of each method."""
    weight = nn.Parameter(torch.randn(2048, 1024))
    models = {f.__name__: Shared(weight, f) for f in (torch.relu, torch.tanh)}
    x = torch.randn(1, 1024)
    path = export({name: (m, (x,), None) for name, m in models.items()}, tmp_path / "model.ptn")
    program = executorch_c.load(path)
    assert program.info()["named_data"][0]["size"] == 8 << 20
    assert mapping(path)["Rss"] < 4 << 10
    for name, model in models.items():
        method = program.load_method(name, delegate_at_load=False)
        assert method.memory()["native"] < 1 << 20
        np.testing.assert_allclose(method(x), model(x).detach(), rtol=1e-4, atol=1e-4)


class Attention(nn.Module):
    """Causal attention of grouped queries, in a sequence of any length."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(16, 16, dtype=dtype), nn.Linear(16, 8, dtype=dtype)
        self.v = nn.Linear(16, 8, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.q(x).view(1, x.shape[1], 4, 4).transpose(1, 2)
        k, v = (f(x).view(1, x.shape[1], 2, 4).transpose(1, 2) for f in (self.k, self.v))
        attend = nn.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)


def test_attention_of_any_length(tmp_path: Path) -> None:
    model = Attention()
    shapes = ({1: torch.export.Dim("length", min=2, max=16)},)
    path = export({"forward": (model, (torch.randn(1, 9, 16),), shapes)}, tmp_path / "model.ptn")
    method = executorch_c.load(path).load_method("forward")
    for length in (9, 2, 16):
        x = torch.randn(1, length, 16)
        np.testing.assert_allclose(method(x), model(x).detach(), rtol=1e-5, atol=1e-6)


def test_check_model_takes_the_flow() -> None:
    from executorch_c.testing import check_model

    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    result = check_model(model, (torch.randn(2, 4),), flow="native-package")
    assert result.ok, str(result)
    assert "it reads no native packages (.ptn)" in " ".join(str(result).split())


def test_the_flow_refuses_several_graphs() -> None:
    from executorch_c.testing import check_model

    model, x = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()).eval(), torch.randn(1, 3, 4, 4)
    with pytest.raises(ValueError, match="makes several: .* flow 'native' lowers such a model"):
        check_model(model, (x,), flow="native-package")


# ---- damage -------------------------------------------------------------------------------------


def members(name: str) -> Members:
    with zipfile.ZipFile(FOLDER / f"{name}.ptn") as package:
        return {member: package.read(member) for member in package.namelist()}


def packed(content: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as package:
        for member, data in content.items():
            package.writestr(member, data)
    return stream.getvalue()


TENSORS = "program.safetensors"


def header(content: Members) -> dict[str, Any]:
    [size] = struct.unpack_from("<Q", content[TENSORS])
    return dict(json.loads(content[TENSORS][8 : 8 + size]))


def with_header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Members], None]:
    """Change the header of the tensors. A text is the header."""

    def apply(content: Members) -> None:
        [size] = struct.unpack_from("<Q", content[TENSORS])
        rows = header(content)
        text = change(rows)
        data = (text if isinstance(text, str) else json.dumps(rows)).encode()
        content[TENSORS] = struct.pack("<Q", len(data)) + data + content[TENSORS][8 + size :]

    return apply


def of_tensor(**fields: Any) -> Callable[[Members], None]:
    """Change the first tensor."""
    return with_header(lambda rows: next(iter(rows.values())).update(fields))


def aliases(**pairs: Any) -> Callable[[Members], None]:
    return lambda content: content.update({"aliases.json": json.dumps(pairs).encode()})


def replaced(member: str, old: bytes, new: bytes) -> Callable[[Members], None]:
    def apply(content: Members) -> None:
        assert old in content[member]
        content[member] = content[member].replace(old, new)

    return apply


ROWS: list[tuple[str, Callable[[Members], Any], str]] = [
    ("state", lambda c: c.pop("program.ptg"), r"without a member 'program.ptg', expected a native"),
    ("state", lambda c: c.pop(TENSORS), r"method 'forward': constant '.*' is not in program.safe"),
    ("state", replaced("program.ptg", b"NPTG", b"NPTH"), r"program.ptg: .* expected 'NPTG'"),
    ("state", lambda c: c.update({"program.ptg": b""}), r"program.ptg: 0 bytes without"),
    ("state", lambda c: c.update({TENSORS: b"1234"}), r"a header of 0 bytes is not inside its 4"),
    ("state", lambda c: c.update({TENSORS: b"\xff" * 80}), r"a header of \d+ bytes is not inside"),
    ("state", with_header(lambda _: "[]"), "program.safetensors: not an object"),
    ("state", with_header(lambda _: '{"a": 1'), "program.safetensors is not JSON: byte 7"),
    ("state", with_header(lambda _: '{"\\ud800": {}}'), "a string with known escapes"),
    ("state", with_header(lambda _: '{"a": 1}'), "tensor 'a' is not an object"),
    ("state", with_header(lambda rows: rows.clear()), "is not in program.safetensors"),
    ("state", of_tensor(data_offsets=[0, 1 << 62]), r"has the bytes 0 to \d+ of \d+"),
    ("state", of_tensor(data_offsets=[8, 4]), r"has the bytes 8 to 4 of"),
    ("state", of_tensor(data_offsets=[8]), "has no data_offsets, two numbers"),
    ("state", of_tensor(data_offsets=[0, 4]), r"has 4 bytes, its dtype and shape need \d+"),
    ("state", of_tensor(shape=[1 << 62, 1 << 62]), "its dtype and shape need"),
    ("state", of_tensor(shape=[1] * 17), "a shape that is not at most 16 sizes"),
    ("state", of_tensor(shape=[-1]), "a shape that is not at most 16 sizes"),
    ("state", of_tensor(shape=None), "no dtype or no shape"),
    ("state", of_tensor(dtype="U64"), r"is U64 \[.*\] in program.safetensors, and int64 \["),
    ("state", of_tensor(dtype="F8_E4M3"), r"is of an unknown dtype \["),
    ("aliases", aliases(a="b"), "'a' is an alias of 'b', which is no tensor"),
    ("aliases", aliases(a=1), "the value of 'a' is not a text"),
    ("aliases", lambda c: c.update({"aliases.json": b"[]"}), "aliases.json: not an object"),
]


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_a_damaged_member(number: int) -> None:
    name, change, message = ROWS[number]
    content = members(name)
    change(content)
    with pytest.raises(InvalidProgramError, match=message):
        Runtime.get().load_program(packed(content))


def test_tensors_that_overlap_or_are_named_twice() -> None:
    content = members("mlp_dyn")
    rows = header(content)
    first, second = (json.dumps(key) for key in list(rows)[:2])
    row = json.dumps(next(iter(rows.values())))
    for text, message in (
        (f"{{{first}: {row}, {second}: {row}}}", "overlap"),
        (f"{{{first}: {row}, {first}: {row}}}", "two tensors are named"),
    ):
        with_header(lambda _, text=text: text)(content)  # type: ignore[misc]
        with pytest.raises(InvalidProgramError, match=message):
            Runtime.get().load_program(packed(content))


def test_aliases_name_tensors_that_no_method_changes() -> None:
    content = members("aliases")
    pairs = json.loads(content["aliases.json"])
    [key, owner], *_ = pairs.items()
    aliases(**pairs, other=key)(content)
    with pytest.raises(InvalidProgramError, match=f"'other' is an alias of '{key}', which is no"):
        Runtime.get().load_program(packed(content))
    aliases(**{owner: owner})(content)
    with pytest.raises(InvalidProgramError, match=f"'{owner}' is an alias, and a tensor itself"):
        Runtime.get().load_program(packed(content))
    content = members("state")
    for state in header(content):
        aliases(other=state)(content)
        try:
            Runtime.get().load_program(packed(content))
        except InvalidProgramError as error:
            assert "but a method mutates one of them" in str(error)
            break
    else:
        pytest.fail("an alias of state is loaded")


def test_the_archive() -> None:
    """Members are stored, once each, inside the file; a comment, and other members are allowed."""
    content = members("state")
    good = packed({"other.txt": b"text", **content})
    check(Runtime.get().load_program(good).load_method("forward"), "state")
    with pytest.raises(InvalidProgramError, match=r"is compressed \(method 8\), expected a stored"):
        Runtime.get().load_program(packed(content, zipfile.ZIP_DEFLATED))
    with pytest.warns(UserWarning, match="Duplicate name"):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as package:
            for _ in range(2):
                package.writestr("program.ptg", content["program.ptg"])
    with pytest.raises(InvalidProgramError, match="two members are named 'program.ptg'"):
        Runtime.get().load_program(stream.getvalue())
    with pytest.raises(InvalidProgramError, match="it was cut off"):
        Runtime.get().load_program(good[: len(good) // 2])
    where = good.rindex(b"PK\5\6")
    for at, value, message in ((16, 0xFFFFFFF0, "is not inside"), (16, 0, "has no entry at byte")):
        bad = bytearray(good)
        struct.pack_into("<I", bad, where + at, value)
        with pytest.raises(InvalidProgramError, match=message):
            Runtime.get().load_program(bytes(bad))


def test_large_archives() -> None:
    """The form of archives that are larger than 4 GiB, of a small one."""
    content, stream = members("state"), io.BytesIO()
    with zipfile.ZipFile(stream, "w") as package:
        for member, data in content.items():
            with package.open(member, "w", force_zip64=True) as file:
                file.write(data)
    data = bytearray(stream.getvalue())
    check(Runtime.get().load_program(bytes(data)).load_method("forward"), "state")
    end = data.rindex(b"PK\5\6")
    count, size, at = struct.unpack_from("<HII", data, end + 10)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, at)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    struct.pack_into("<HHII", data, end + 8, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    large = bytes(data[:end]) + record + locator + bytes(data[end:])
    check(Runtime.get().load_program(large).load_method("forward"), "state")
    with pytest.raises(InvalidProgramError, match="zip64 end record is not where"):
        Runtime.get().load_program(large.replace(locator, locator[:8] + b"\1" + locator[9:]))
    entry = large.index(b"PK\1\2")
    struct.pack_into("<I", lost := bytearray(large), entry + 42, 0xFFFFFFFF)
    with pytest.raises(InvalidProgramError, match="has no zip64 sizes"):
        Runtime.get().load_program(bytes(lost))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes(name: str) -> None:
    """Each damaged file gives results, or an exception with a message."""
    data = (FOLDER / f"{name}.ptn").read_bytes()
    source, failures = random.Random(name), 0
    for _ in range(60):
        copy = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 8))):
            copy[source.randrange(len(data))] = source.choice((0, 1, 127, 128, 255))
        try:
            Runtime.get().load_program(bytes(copy)).load_method("forward").execute(
                steps(name)[0][0]
            )
        except Error as error:
            failures += 1
            assert str(error)
    assert failures < 60
