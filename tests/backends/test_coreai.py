"""CoreAIBackend: manifests, files and hashes without an engine; the engine's process with a
stand-in for the package coreai-core, and with the package the recorded programs."""

import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Error, Runtime, register_backend, unregister_backend
from executorch_c._coreai import CoreAI, chosen, engine, inside, narrowed, operator, payload
from executorch_c.check import lowering
from executorch_c.inspect import payloads, structure
from tests import process
from tests.plans import BOUNDED, Plan, build, schema

ID = CoreAI.id
X = np.arange(6, dtype=np.float32).reshape(2, 3)
PROGRAMS = Path(__file__).parent / "coreai_programs"
registry = Runtime.get().backend_registry


registry.is_available(ID)  # discovers the backend, before the stand-in can be found
INSTALLED = ID in registry.registered_backend_names
needs_engine = pytest.mark.skipif(not INSTALLED, reason="the extra coreai is not installed")

# ---- programs with a stand-in for the engine ---------------------------------------------------

ASSET = """
import contextlib, json, os, time

def act(what):
    print("ODIE [default]: something", flush=True)
    if what == "abort":
        os.abort()
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(100)
    if what:
        raise RuntimeError(what)

class Form:
    state_names = []
    output_names = ["y"]
    def __init__(self, row):
        self.input_names = [f"x{i}" for i in range(len(row))]
        self.row = row
        self.dtype = "float32"
    def input_descriptor(self, name):
        self.shape = self.row[int(name[1:])]
        return self
    def output_descriptor(self, name):
        return self

class Function:
    def __init__(self, run, row):
        self.run, self.desc = run, Form(row)
    async def __call__(self, inputs):
        act(self.run)
        from coreai.runtime import NDArray
        return {"y": NDArray(inputs["x0"].data * 2)}

class AIModelAsset:
    @classmethod
    def load(cls, path):
        self = cls()
        self.script = json.loads((path / "main.mlirb").read_bytes().partition(b"\\0")[2])
        return self
    @contextlib.asynccontextmanager
    async def executable(self):
        act(self.script.get("load"))
        self.function_names = list(self.script["functions"])
        yield self
    def load_function(self, name):
        return Function(self.script.get("run"), self.script["functions"][name])
"""
RUNTIME = """
class NDArray:
    def __init__(self, data):
        self.data = data
    def numpy(self):
        return self.data
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the backend; its processes import a stand-in for coreai-core."""
    texts = {"__init__": "", "authoring/__init__": "", "authoring/asset": ASSET, "runtime": RUNTIME}
    for name, text in texts.items():
        file = tmp_path / "coreai" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield from registered()


def registered() -> Iterator[None]:
    engine._close()
    register_backend(CoreAI, override=True)
    yield
    if not INSTALLED:
        unregister_backend(ID)
    engine._close()


def files(**script: Any) -> dict[str, bytes]:
    """Return the files of an asset whose function `main` doubles an array of (2, 3)."""
    text = json.dumps({"functions": {"main": [[2, 3]]}, **script}).encode()
    code = payload.MAGIC + b"\x0dMLIR22.0.0git\0" + text
    digest = hashlib.sha256(code).digest()
    about = json.dumps({"producer": "coreai-core 1", "assetVersion": "2.0"}).encode()
    return {payload.PROGRAM: code, payload.HASH: digest, payload.METADATA: about}


def manifest(asset: dict[str, bytes], **changes: Any) -> dict[str, Any]:
    digest = hashlib.sha256(asset[payload.PROGRAM]).hexdigest()
    fields = {
        **{"files": sorted(asset), "packaging": "inline", "hash": digest},
        **{"path": f"{digest}/model.aimodel", "min_deployment_version": None},
    }
    return {key: value for key, value in {**fields, **changes}.items() if value is not ...}


def pte(
    asset: dict[str, bytes], calls: int = 1, bounds: tuple[int, int] = (2, 3), **changes: Any
) -> bytes:
    plan, fields = Plan(), manifest(asset, **changes)
    x = plan.input(bounds, dynamism=BOUNDED)
    for _ in range(calls):
        y = plan.output(bounds, dynamism=BOUNDED)
        plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, y]))
    named = {f"coreai/{fields['hash']}/{name}": data for name, data in asset.items()}
    return build(plan, payloads=[json.dumps(fields).encode()], named=named)


def load(data: bytes, **options: Any) -> executorch_c.Method:
    chosen_options = {"backend_options": {ID: options}} if options else {}
    return Runtime.get().load_program(data).load_method("forward", **chosen_options)


# ---- reading, without an engine ----------------------------------------------------------------

HOSTILE: list[tuple[Any, str]] = [
    (b"\xff", "not a manifest in JSON"),
    (b"", "not a manifest in JSON"),
    (b"[" * 100_000, "not a manifest in JSON"),
    (b"9" * 10_000, "not a manifest in JSON"),
    (b" " * (1 << 21), "at most 1,048,576"),
    (b"[]", "a JSON list, expected an object"),
    ({"packaging": "zip"}, "'packaging' is 'zip', expected one of inline, sidecar"),
    ({"packaging": []}, r"'packaging' is \[\]"),
    ({"hash": "../" * 22}, "'hash' is .* expected 64 hexadecimal digits"),
    ({"hash": 3}, "'hash' is 3"),
    ({"path": "/etc"}, "'path' is '/etc', expected '"),
    ({"path": None}, "'path' is None"),
    ({"files": "model.aimodel"}, "'files' is 'model.aimodel', expected at most 64"),
    ({"files": ["model.aimodel/../../x"]}, "'files' is"),
    ({"files": ["/etc/passwd"]}, "'files' is"),
    ({"files": ["model.aimodel/\x1b"]}, "'files' is"),
    ({"files": [payload.PROGRAM]}, "main.mlirb, model.aimodel/main.hash"),
    ({"files": [payload.PROGRAM, payload.HASH, "other/x"]}, "other files in model.aimodel"),
    ({"files": ["x"] * 100_000}, "'files' is .*[.]{3}, expected at most 64"),
    ({"min_deployment_version": 27}, "'min_deployment_version' is 27"),
    ({"archs": ["h16"]}, "'archs' is"),
]


@pytest.mark.parametrize(("change", "match"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_manifest(change: Any, match: str) -> None:
    data = change
    if isinstance(change, dict):
        data = json.dumps(manifest(files(), **change)).encode()
    with pytest.raises(executorch_c.InvalidProgramError, match=match):
        payload.manifest(data)
    (fact,) = payloads.facts(ID, data)
    assert fact[0] == "damaged" and fact[1]


def other(change: dict[str, bytes | None]) -> dict[str, bytes]:
    merged = {**files(), **change}
    return {name: data for name, data in merged.items() if data is not None}


WRONG_FILES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({payload.PROGRAM: b"ML\xefR"}, {}, "its SHA-256 is .*, model.aimodel.main.hash has"),
    ({payload.HASH: b""}, {}, "main.hash has none"),
    ({payload.HASH: bytes(32)}, {}, "main.hash has 0000000000000000"),
    ({payload.HASH: None}, {}, "has no named data 'coreai/.*/model.aimodel/main.hash'"),
    ({}, {"packaging": "sidecar"}, "pass the folder of the .pte as option 'sidecar_folder'"),
    ({}, {"packaging": "aot_compiled_inline", "archs": {"h16": "x"}}, r"Apple's devices \(h16\)"),
    ({}, {"packaging": "aot_compiled_sidecar"}, "export .* as a portable .aimodel"),
]


@pytest.mark.parametrize(("change", "fields", "match"), WRONG_FILES)
def test_wrong_files(change: dict[str, Any], fields: dict[str, Any], match: str) -> None:
    whole, asset = manifest(files(), **fields), other(change)
    this = payload.manifest(json.dumps(whole).encode())
    found = {this.key(name): data for name, data in asset.items()}
    with pytest.raises(Error, match=match):
        payload.read(this, found.get, "")
    assert payloads.facts(ID, json.dumps(whole).encode(), found.get)


def test_a_program_that_is_no_bytecode() -> None:
    asset = {**files(), payload.PROGRAM: b"text", payload.HASH: hashlib.sha256(b"text").digest()}
    this = payload.manifest(json.dumps(manifest(asset)).encode())
    with pytest.raises(executorch_c.InvalidProgramError, match="74 65 78 74, expected 4d 4c ef"):
        payload.check_hash(this, asset)


def test_facts_without_an_engine(tmp_path: Path) -> None:
    """A program's payload is shown; what is missing is named."""
    (tmp_path / "m.pte").write_bytes(pte(files()))
    env = {**os.environ, "PYTHONPATH": str(Path(executorch_c.__file__).parents[1])}
    command = ("-m", "executorch_c", "info", tmp_path / "m.pte")
    shown = process.python(*command, cwd=tmp_path, env=env).stdout
    for text in ("MLIR bytecode of MLIR22.0.0git", "producer: coreai-core 1", "main.mlirb: "):
        assert text in shown or INSTALLED
    assert INSTALLED or "pip install 'executorch_c[coreai]'" in shown


def test_damaged_payloads_are_shown() -> None:
    asset, pick = files(), random.Random(3)
    good = json.dumps(manifest(asset)).encode()
    lookup = {f"coreai/{manifest(asset)['hash']}/{name}": data for name, data in asset.items()}
    assert ("program", "MLIR bytecode of MLIR22.0.0git") in payloads.facts(ID, good, lookup.get)
    for _ in range(500):
        data = bytearray(good)
        data[pick.randrange(len(good))] = pick.randrange(256)
        payloads.facts(ID, bytes(data), lookup.get)
    for size in range(0, 24):
        payload.producer(asset[payload.PROGRAM][:size])


def test_the_function_of_a_shape() -> None:
    def function(name: str, *shapes: list[int]) -> dict[str, Any]:
        return {"name": name, "inputs": [["x", "float32", shape] for shape in shapes]}

    enumerated = [function("main_s77_4", [4, 3]), function("main_s77_8", [8, 3])]
    assert chosen(enumerated, [(8, 3)])["name"] == "main_s77_8"
    assert chosen([function("main", [-1, 3])], [(5, 3)])["name"] == "main"
    for functions, shapes, match in (
        (enumerated, [(5, 3)], "enumerated its shapes .main_s77_4, main_s77_8"),
        ([function("main", [9])], [(2,)], r"shape \[2\].*takes \[9\]: the flow fixed this size"),
        ([function("main", [9])], [(2,), (3,)], "has 1 inputs, the program passes 2"),
        ([], [], "no function"),
    ):
        with pytest.raises(Error, match=match):
            chosen(functions, shapes)


def test_numbers_of_64_bits_are_narrowed() -> None:
    assert narrowed(0, np.int64([3]), "int32").dtype == np.int32
    assert narrowed(0, np.float64([0.1]), "float32").dtype == np.float32
    with pytest.raises(executorch_c.InvalidArgumentError, match="beyond int32"):
        narrowed(0, np.int64([1 << 40]), "int32")
    with pytest.raises(executorch_c.InvalidProgramError, match="is int8, the function takes bool"):
        narrowed(0, np.int8([1]), "bool")


def test_debug_information_names_the_nodes() -> None:
    """Any other text of the engine is an exception in its process."""
    node = {"name": {"string": {"_0": "torch"}}, "id": {"integer": {"_0": 6}}}
    node["identifiers"] = {"array": {"_0": [{"string": {"_0": "aten_addmm_default"}}]}}
    row = {"key": "sources", "value": {"array": {"_0": [{"dictionary": {"_0": node}}]}}}
    text = json.dumps([{"operations": [{"odixId": 4, "metadatas": [row]}]}]).encode()
    assert inside.sources(text) == {4: (6, "aten_addmm_default")}
    for name, expected in (
        ("aten_addmm_default_1", "aten::addmm"),
        ("aten_add_Tensor", "aten::add"),
        ("aten__to_copy_default", "aten::_to_copy"),
        ("aten_pow_tensor_scalar_1", "aten::pow"),
        ("aten_scalar_tensor_default", "aten::scalar_tensor"),
        ("coreai_dequantize_default_2", "coreai::dequantize"),
        ("other", "other"),
    ):
        assert operator(name) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor<4x32xsi8>", ("int8", [4, 32])),
        ("tensor<bf16>", ("bfloat16", [])),
        ("tensor<2xi1>", ("bool", [2])),
        ("tensor<?x3xf8E4M3FN>", ("float8e4m3fn", None)),
        ("other", ("other", None)),
    ],
)
def test_types_of_mlir(text: str, expected: tuple[str, list[int] | None]) -> None:
    assert inside.type_of(text) == expected


# ---- the engine's process ----------------------------------------------------------------------


def running() -> engine.Engine:
    assert engine._engine is not None
    return engine._engine


@pytest.mark.usefixtures("stand_in")
def test_delegates_share_a_process(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = load(pte(files(), calls=2)), load(pte(files(name="other")))
    for y in [*first.execute([X]), *second.execute([X])]:
        assert_array_equal(y, X * 2)
    number = running().process.pid
    del first
    assert_array_equal(second(X), X * 2)
    assert running().process.pid == number and capfd.readouterr().out == ""
    running().close()
    assert_array_equal(second(X), X * 2)  # a new process loads the model again
    assert running().process.pid != number


@pytest.mark.parametrize(
    ("what", "match"),
    [
        ("abort", "died in {}: signal SIGABRT; the next call starts another process"),
        ("exit", "died in {}: exit status 3"),
        ("hang", "not ended in 2 seconds .option 'timeout_seconds'. in {}"),
        ("no such op", "refused {}: RuntimeError: no such op"),
    ],
)
@pytest.mark.usefixtures("stand_in")
def test_the_engine_fails(what: str, match: str) -> None:
    good = load(pte(files()))
    for when, place in (("load", "the load of the model"), ("run", "function 'main'")):
        with pytest.raises(Error, match=match.format(place)):
            load(pte(files(**{when: what})), timeout_seconds=2.0)(X)
        assert_array_equal(good(X), X * 2)


@pytest.mark.usefixtures("stand_in")
def test_shapes_that_the_flow_fixed() -> None:
    method = load(pte(files(), bounds=(4, 3)))
    assert_array_equal(method(X), X * 2)
    with pytest.raises(Error, match=r"shape \[4, 3\].*takes \[2, 3\]: the flow fixed this size"):
        method(np.zeros((4, 3), np.float32))


@pytest.mark.usefixtures("stand_in")
def test_a_sidecar(tmp_path: Path) -> None:
    asset = files()
    data = pte(asset, packaging="sidecar", files=...)
    with pytest.raises(executorch_c.NotFoundError, match="nowhere.* is no directory"):
        load(data, sidecar_folder="nowhere")
    for name, content in asset.items():
        path = tmp_path / manifest(asset)["hash"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert_array_equal(load(data, sidecar_folder=str(tmp_path))(X), X * 2)


@pytest.mark.usefixtures("stand_in")
def test_threads_share_the_process() -> None:
    methods, results = [load(pte(files())) for _ in range(4)], []
    threads = [
        threading.Thread(target=lambda method=method: results.append(method(X)))
        for method in methods
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for y in results:
        assert_array_equal(y, X * 2)
    assert len(results) == 4


@pytest.mark.usefixtures("stand_in")
def test_a_forked_process_has_its_own(tmp_path: Path) -> None:
    method = load(pte(files()))
    assert_array_equal(method(X), X * 2)
    pid = os.fork()
    if not pid:
        is_equal = np.array_equal(method(X), X * 2)
        engine._close()
        os._exit(0 if is_equal else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert_array_equal(method(X), X * 2)


def ended(pid: int) -> bool:
    """Return True when a process, not of this one, has ended."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("end", ["", "import os; os.kill(os.getpid(), 9)"])
@pytest.mark.usefixtures("stand_in")
def test_no_process_stays(tmp_path: Path, end: str) -> None:
    """Neither after the end of the interpreter nor after that by a signal."""
    (tmp_path / "m.pte").write_bytes(pte(files()))
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import executorch_c, numpy as np
from executorch_c._coreai import CoreAI, engine
executorch_c.register_backend(CoreAI, override=True)
method = executorch_c.load({str(tmp_path / "m.pte")!r}).load_method("forward")
method(np.zeros((2, 3), np.float32))
print(engine._engine.process.pid, engine._engine.folder, flush=True)
{end}
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    pid, folder = done.stdout.split()
    assert done.returncode == (-9 if end else 0) and ended(int(pid))
    assert not Path(folder).exists()


# ---- the engine --------------------------------------------------------------------------------

LIMITS = {"mlp_bf16": 1e-2, "mlp_dyn": 1e-6, "mlp_q8": 1e-6, "ops": 1e-6, "state_out": 1e-6}


def bits(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return bfloat16 from its bits."""
    return array.view(dtype) if dtype.name == "bfloat16" and array.dtype == np.uint16 else array


def steps(name: str, method: executorch_c.Method) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield inputs, and eager's outputs, of each call."""
    with np.load(PROGRAMS / f"{name}.npz") as file:
        arrays = dict(file)
    dtype = method.metadata.input_tensor_meta(0).numpy_dtype
    for step in ("", "step1_", "step2_"):
        inputs, outputs = (
            [bits(arrays[key], dtype) for key in sorted(arrays) if key.startswith(f"{step}{kind}")]
            for kind in ("in", "out")
        )
        if inputs:
            yield inputs, outputs


@pytest.fixture
def installed() -> Iterator[None]:
    yield from registered()


@needs_engine
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", LIMITS)
def test_a_recorded_program(name: str) -> None:
    method = load((PROGRAMS / f"{name}.pte").read_bytes())
    for inputs, expected in steps(name, method):
        for actual, y in zip(method.execute(inputs), expected, strict=True):
            assert actual.dtype == y.dtype and actual.shape == y.shape
            a, b = actual.astype(np.float64), y.astype(np.float64)
            assert np.abs(a - b).max() <= LIMITS[name] * max(np.abs(b).max(), 1e-30)


@needs_engine
@pytest.mark.usefixtures("installed")
def test_a_damaged_program_ends_only_the_engine() -> None:
    """A hostile program has the hash of its bytes."""
    source, pick = executorch_c.load(PROGRAMS / "mlp_dyn.pte"), random.Random(5)
    fields = json.loads(source._payload("forward", 0))
    asset = {
        name: source._named_data(f"coreai/{fields['hash']}/{name}") for name in fields["files"]
    }
    x = np.zeros((2, 32), np.float32)
    for _ in range(6):
        code = bytearray(asset[payload.PROGRAM] or b"")
        code[pick.randrange(4, len(code) // 3)] ^= 1 << pick.randrange(8)
        digest = hashlib.sha256(code).digest()
        wrong = {**asset, payload.PROGRAM: bytes(code), payload.HASH: digest}
        try:
            load(pte(wrong, bounds=(16, 32)), timeout_seconds=60.0)(x)
        except Error as error:
            assert "Core AI" in str(error) or "function" in str(error) or "shape" in str(error)


@needs_engine
def test_values_inside() -> None:
    """A trace has the nodes that the payload describes, in their order."""
    loaded = executorch_c.load(PROGRAMS / "mlp_dyn.pte")
    method = loaded.load_method("forward")
    with method.tracing(values=True) as trace:
        y = method(np.ones((2, 32), np.float32))
    (view,) = structure.methods(loaded, "forward")
    described = view.inside(0)
    assert isinstance(described, dict)
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in nodes] == [node["name"] for node in described["nodes"]]
    assert_array_equal(nodes[-1].outputs[0].data, y)
    lines = [line.split()[-1] for line in str(trace).splitlines() if "aten::" in line]
    assert not any(line.endswith("%") for line in lines)  # times of nodes are not measured


@needs_engine
def test_the_flow() -> None:
    pytest.importorskip("coreai_torch", reason="the extra coreai-flow is not installed")
    import torch
    from torch import nn

    from executorch_c.devtools import explain
    from executorch_c.testing import check_model

    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.ReLU()).eval()
    wrong, x = copy.deepcopy(model), torch.randn(4, 8)
    wrong[2].weight.data[3] *= 1.5
    program_ = lowering.coreai(torch.export.export(wrong, (x,)), "forward").buffer
    assert "aten::addmm (addmm) of '2'" in str(explain(model, (x,), program=program_))
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 3), nn.GELU()).eval()
    result = check_model(model, (torch.randint(0, 11, (2, 5)),), flow="coreai")
    assert result.verdict == "match"
