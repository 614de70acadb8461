"""NativeBackend: programs of the flow equal eager; damaged payloads, hostile graphs. Halves and
quantised models are in test_flow_matrix.py, planted faults in test_flow_faults.py."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir.operator.convert import to_out_variant
from torch import nn

import executorch_c
from executorch_c import Method, Runtime
from tests.backends import native_flow
from tests.backends.recorded import Recorded

PROGRAMS = Recorded(Path(__file__).with_name("native_programs"))
MODELS = native_flow.models()
OPERATORS = Path(__file__).parents[2] / "backends/interpreted/native/operators.def"


def method_of(pte: bytes | str, **options: Any) -> Method:
    return Runtime.get().load_program(pte, **options).load_method("forward")


def assert_close(method: Method, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Assert that a call equals eager: integers exactly, floats to 1e-6."""
    with torch.no_grad():
        want = model(*inputs)
    want = want if isinstance(want, tuple) else (want,)
    outputs = method.execute([x.numpy() for x in inputs])
    assert len(outputs) == len(want)
    for got, expected in zip(outputs, want, strict=True):
        assert got.shape == tuple(expected.shape) and got.dtype == expected.numpy().dtype
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "counter"])
def test_models(name: str) -> None:
    model, inputs = MODELS[name]
    pte = native_flow.export(model, inputs)
    assert "NativeBackend" in Runtime.get().load_program(pte).requirements()["backends"]
    assert_close(method_of(pte), model, inputs)


class Unsigned(nn.Module):
    """Operators that the runtime has for unsigned integers of 16 and 32 bits."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.clone(), x.to(torch.int64) * 2, x.view(2, 3)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32])
def test_unsigned_integers(dtype: torch.dtype) -> None:
    """ExecuTorch 1.5.1 serialises no uint64; a payload with one is refused (hostile_native.py)."""
    inputs = (torch.tensor([1, 2, 3, 4, 5, torch.iinfo(dtype).max]).to(dtype),)
    pte = native_flow.export(Unsigned(), inputs)
    inside: Any = Runtime.get().load_program(pte)._delegate("forward", 0)
    assert str(dtype).removeprefix("torch.") in {value["dtype"] for value in inside["values"]}
    assert_close(method_of(pte), Unsigned(), inputs)


def test_the_serializer_writes_no_packed_weights() -> None:
    """A tensor's quantisation is in the schema, but nothing in ExecuTorch 1.5.1 sets it."""
    from executorch.backends import native

    root = Path(native.__file__).parent
    code = {path: path.read_text() for path in root.rglob("*.py") if "test" not in path.parts}
    table = {"AffineGroup", "PackedQuant", "QuantSpec"}
    calls = {
        path.name
        for path, text in code.items()
        for name in table
        if re.search(rf"(?<!class ){name}\(", text)
    }
    assert calls == set()


def test_constants_in_a_data_file(tmp_path: Path) -> None:
    model, inputs = MODELS["cnn"]
    native_flow.write(tmp_path, model, inputs)
    [data] = tmp_path.glob("*.ptd")
    pte = (tmp_path / "model.pte").read_bytes()
    assert_close(method_of(pte, data_path=data), model, inputs)
    with pytest.raises(executorch_c.Error, match="stores constants in a .ptd file"):
        method_of(pte)


def test_state() -> None:
    """State keeps its value between calls; a newly loaded method begins anew, and so does one after
    reset()."""
    x, at = MODELS["counter"][1]
    pte = native_flow.export(native_flow.Counter(), (x, at))
    method_of(pte)(x.numpy(), at.numpy())
    method = method_of(pte)
    for calls in (3, 2):
        model = native_flow.Counter()
        for call in range(calls):
            assert_close(method, model, (x * (call + 1), torch.tensor([call])))
        method.reset()


def test_dynamic_shapes() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0], -1).relu() * x.shape[0]

    dim = torch.export.Dim("n", min=2, max=9)
    x = torch.randn(4, 3, 5)
    method = method_of(native_flow.export(Flat(), (x,), dynamic_shapes=({0: dim},)))
    for n in (2, 4, 9):
        assert_close(method, Flat(), (torch.randn(n, 3, 5),))


@pytest.mark.parametrize("make", [native_flow.Branches, native_flow.Nested])
def test_cond(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.rand(2, 4)
    method = method_of(native_flow.export_whole(model, (x,)))
    for factor in (1, -1, 2, -0.2, 0.1):
        assert_close(method, model, (x * factor,))


def test_cond_with_a_chosen_branch() -> None:
    model, x = native_flow.Chosen(), torch.randn(3)
    pte = native_flow.export_whole(model, (x, torch.tensor(True)))
    method = method_of(pte)
    with method.tracing() as trace:
        for flag in (True, False):
            assert_close(method, model, (x, torch.tensor(flag)))
    inside: Any = Runtime.get().load_program(pte)._delegate("forward", 0)
    assert [node["name"] for node in inside["nodes"]] == ["higher_order.cond"]
    assert [e.name for e in trace.events if e.kind == "node"] == ["higher_order.cond"] * 2


def test_a_wrong_branch_changes_its_results_alone() -> None:
    torch.manual_seed(0)
    model, x = native_flow.Branches(), torch.rand(2, 4)
    data = model.left.weight.detach().numpy()
    pte = native_flow.export_whole(model, (x,))
    assert pte.count(data.tobytes()) == 1
    method = method_of(pte.replace(data.tobytes(), (data + 0.5).tobytes()))
    assert_close(method, model, (-x,))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(method, model, (x,))


def test_the_partitioner_cannot_lower_cond() -> None:
    """ExecuTorch 1.5.1 fails, for the result of such a delegate is a tuple in a tuple."""
    inputs = (torch.randn(3), torch.tensor(True))
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'lifetime'"):
        native_flow.lower(native_flow.Chosen(), inputs)


class Attentions(nn.Module):
    """Attention with each kind of mask, and products of each rank."""

    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        attend = nn.functional.scaled_dot_product_attention
        both = torch.matmul(q, q.transpose(-1, -2))
        return (
            *(attend(q, q, q), attend(q, q, q, attn_mask=mask > 0), attend(q, q, q, mask)),
            *(attend(q, q, q, is_causal=True, scale=0.3), both, both[0] @ q[0]),
            *(q @ q[0, 0].transpose(0, 1), q[0, 0] @ q[0, 0].transpose(0, 1)),
        )


def test_attention_and_products() -> None:
    inputs = torch.randn(2, 3, 5, 4), torch.linspace(-1, 4, 25).sin().reshape(5, 5) + 0.5
    assert_close(method_of(native_flow.export(Attentions(), inputs)), Attentions(), inputs)


def test_attention_of_any_length() -> None:
    """Masks of causal attention have the sizes of a call."""

    class Causal(nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    shapes = ({2: torch.export.Dim("length", min=2, max=16)},)
    q = torch.randn(1, 2, 9, 4)
    method = method_of(native_flow.export(Causal(), (q,), dynamic_shapes=shapes))
    for length in (9, 2, 16):
        assert_close(method, Causal(), (torch.randn(1, 2, length, 4),))


def test_nodes_are_described() -> None:
    inside: Any = Runtime.get().load_program(PROGRAMS.folder / "mlp.pte")._delegate("forward", 0)
    assert inside["nodes"][1]["note"].startswith("aten_relu__default")
    values = {value["id"]: value for value in inside["values"]}
    _, weight, _ = (values[i] for i in inside["nodes"][0]["inputs"])
    assert weight["constant"] and "named data 0.weight" in weight["note"]


def test_names_of_operators() -> None:
    """Each functional operator is translated to the out variant that ExecuTorch pairs it with."""
    rows = dict(re.findall(r'ECT_OP\("aten\.(.*?)", "aten::(.*?)"', OPERATORS.read_text()))
    ours = {row["name"] for row in executorch_c.operators()}
    compared = 0
    for schema in torch._C._jit_get_all_schemas():
        overload = schema.overload_name or "default"
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        op = getattr(packet, overload, None) if schema.name.startswith("aten::") else None
        if op is None or any(a.alias_info and a.alias_info.is_write for a in schema.arguments):
            continue
        try:
            out = to_out_variant(op)[0]._schema
        except Exception:  # no such pair
            continue
        name = f"{out.name}.{out.overload_name}"
        if name not in ours:
            continue
        base = schema.name
        guesses = [f"{base}.{overload}_out"] * (overload != "default") + [f"{base}.out"]
        row = rows.get(f"{base.removeprefix('aten::')}.{overload}")
        result = f"aten::{row}" if row else next(guess for guess in guesses if guess in ours)
        assert result == name
        compared += 1
    assert compared > 400


def test_absent_fields() -> None:
    """Each pair of bytes of a payload becomes zero, as in a table that lacks a field."""
    data = (PROGRAMS.folder / "mlp.pte").read_bytes()
    begin = data.index(b"NPTG") - 4
    sentences = set()
    for at in range(begin, begin + 2600, 2):
        copy = bytearray(data)
        copy[at : at + 2] = b"\0\0"
        try:
            program = Runtime.get().load_program(bytes(copy))
            program._delegate("forward", 0)
            program.load_method("forward")
        except executorch_c.Error as found:
            sentences.add(str(found))
    assert any("has no dtype and sizes" in sentence for sentence in sentences)
    assert len(sentences) > 30
