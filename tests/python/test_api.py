"""The official Python API, compared with executorch.runtime on the same files, and
executorch_c.portable_lib, compared with the official module: equal calls give equal results."""

import inspect
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import InvalidStateError, Method, MethodMeta, Program, Runtime, TensorInfo
from executorch_c import Verification
from executorch_c._inputs import names as names_of_inputs
from tests import process
from tests.python import small_programs
from tests.python.digits import DIGITS
from tests.python.small_programs import CHANNELS_LAST

executorch_runtime = pytest.importorskip("executorch.runtime")
official_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
import ml_dtypes  # noqa: F401  (bfloat16 outputs)
import torch

from executorch_c import portable_lib
from executorch_c.bundled import BundledProgram
from tests.exports import Fn, export

X = np.arange(4, dtype=np.float32).reshape(2, 2)


def programs_by_name() -> dict[str, bytes]:
    return {
        "static": small_programs.add_pte(),
        "dynamic": small_programs.dynamic_pte(),
        "channels_last": small_programs.clone_pte((1, 2, 3, 4), "float32", CHANNELS_LAST),
        "bfloat16": small_programs.clone_pte((2, 3), "bfloat16"),
        "scalar": small_programs.clone_pte((), "int64"),
        "attribute": small_programs.counter_pte(),
    }


@pytest.fixture(params=sorted(programs_by_name()))
def pte(request: pytest.FixtureRequest) -> bytes:
    return programs_by_name()[request.param]


@pytest.fixture
def both(pte: bytes) -> tuple[Any, Program]:
    """Open the same file in the official runtime and in ours."""
    official = executorch_runtime.Runtime.get().load_program(pte)
    return official, Runtime.get().load_program(pte)


# ---- names and signatures ----


def test_exports_are_documented() -> None:
    names = "Runtime Program Method BackendRegistry OperatorRegistry Verification MethodMeta"
    official = getattr(executorch_runtime, "__all__", names.split())
    assert set(official) <= set(executorch_c.__all__)
    for name in executorch_c.__all__:
        assert getattr(executorch_c, name).__module__ in ("executorch_c", "executorch_c._core")
    for name in executorch_c.__all__:
        assert inspect.getdoc(getattr(executorch_c, name)), name


CLASSES = ["Runtime", "Program", "Method", "BackendRegistry", "OperatorRegistry"]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_official_members(name: str) -> None:
    official, ours = getattr(executorch_runtime, name), getattr(executorch_c, name)
    for member in vars(official):
        if not member.startswith("_"):
            assert hasattr(ours, member), member


@pytest.mark.parametrize("name", CLASSES)
def test_signatures_accept_official_calls(name: str) -> None:
    official, ours = getattr(executorch_runtime, name), getattr(executorch_c, name)
    for member, function in vars(official).items():
        if member.startswith("_") or not inspect.isfunction(function):
            continue
        theirs, mine = inspect.signature(function), inspect.signature(getattr(ours, member))
        for parameter in theirs.parameters.values():
            ours_of_it, default = mine.parameters[parameter.name], parameter.default
            if parameter.name != "self":
                assert ours_of_it.kind is parameter.kind
                is_enum = isinstance(default, executorch_runtime.Verification)
                assert ours_of_it.default == (int(default) if is_enum else default)


@pytest.mark.parametrize(
    "function",
    [
        getattr(cls, name)
        for cls in (Runtime, Program, Method, MethodMeta, TensorInfo)
        for name in vars(cls)
        if not name.startswith("__") and callable(getattr(cls, name))
    ]
    + [executorch_c.operators, executorch_c.register_backend, executorch_c.get_include],
    ids=lambda function: function.__qualname__,
)
def test_docstrings_and_signatures(function: Any) -> None:
    assert inspect.signature(function) is not None
    text = inspect.getdoc(function)
    assert text and not text.startswith(function.__name__), "the signature is not split off"


@pytest.mark.parametrize("cls", [Program, Method, MethodMeta, TensorInfo, Runtime])
def test_types_are_not_made_by_hand(cls: type) -> None:
    with pytest.raises(TypeError):
        cls()
    with pytest.raises(TypeError):
        setattr(cls, "name", 3)


# ---- runtime and registries ----


def test_the_runtime_and_its_registries() -> None:
    assert Runtime.get() is Runtime.get()
    assert executorch_runtime.Runtime.get() is executorch_runtime.Runtime.get()
    names = Runtime.get().operator_registry.operator_names
    assert isinstance(names, set) and "aten::add.out" in names
    rows = executorch_c.operators()
    assert names == {row["name"] for row in rows}
    assert [row["name"] for row in rows] == sorted(names)
    add = next(row for row in rows if row["name"] == "aten::add.out")
    assert add["schema"].startswith("aten::add.out(Tensor self, Tensor other")
    assert "float32" in add["dtypes"]
    assert add["family"]
    registry = Runtime.get().backend_registry
    assert isinstance(registry.registered_backend_names, list)
    assert registry.is_available("NoSuchBackend") is False
    assert registry.is_available(backend_name="NoSuchBackend") is False


def test_verification() -> None:
    assert int(Verification.Minimal) == 0 and int(Verification.InternalConsistency) == 1
    for level in Verification:
        Runtime.get().load_program(small_programs.add_pte(), verification=level)
    for bad, error in ((2, ValueError), ("x", TypeError)):
        with pytest.raises(error):
            Runtime.get().load_program(small_programs.add_pte(), verification=bad)  # type: ignore


# ---- loading ----


def test_everything_a_program_can_be_loaded_from(tmp_path: Path) -> None:
    pte = small_programs.add_pte()
    path = tmp_path / "modèle.pte"
    path.write_bytes(pte)
    odd = b"x" + pte
    sources: list[Any] = [
        *(pte, bytearray(pte), memoryview(pte), memoryview(odd)[1:]),
        *(np.frombuffer(pte, np.uint8), io.BytesIO(pte), path, str(path)),
    ]
    with path.open("rb") as file:
        for data in [*sources, file]:
            method = Runtime.get().load_program(data).load_method("forward")
            assert_array_equal(method.execute([X, X])[0], X + X)


@pytest.mark.parametrize("data", [3, None, 2.5, ["a"]])
def test_other_types_are_the_official_error(data: Any) -> None:
    for runtime in (Runtime.get(), executorch_runtime.Runtime.get()):
        with pytest.raises(TypeError, match="Expected data to be bytes, bytearray"):
            runtime.load_program(data)


def test_text_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.pte"
    path.write_text("abc")
    with path.open() as file, pytest.raises(TypeError, match="mode 'rb'"):
        Runtime.get().load_program(file)  # type: ignore[arg-type]


def test_options_of_load_program() -> None:
    pte = small_programs.add_pte()
    load = Runtime.get().load_program
    load(pte, enable_etdump=False, debug_buffer_size=1000, data_path=None, mlock=False)
    load(pte, share_mutable_buffers=True, data_path=[])
    with pytest.raises(ValueError, match="`debug_buffer_size` is negative"):
        load(pte, debug_buffer_size=-1)
    with pytest.raises(InvalidStateError, match="without enable_etdump=True"):
        load(pte).write_etdump_result_to_file("a", "b")
    with pytest.raises(TypeError, match="mlock"):
        load(pte, mlock="yes")  # type: ignore[arg-type]


def test_a_file_may_go_away_after_loading(tmp_path: Path) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes(small_programs.add_pte())
    Runtime.get().load_program(path, mlock="try").load_method("forward")
    program = Runtime.get().load_program(path)
    path.unlink()
    assert_array_equal(program.load_method("forward")(X, X), X + X)


# ---- programs and methods ----


def test_methods_are_cached() -> None:
    program = Runtime.get().load_program(small_programs.counter_pte())
    method = program.load_method("forward")
    assert program.load_method(name="forward") is method
    assert program.load_method("forward", kernels="default") is method
    reference = program.load_method("forward", kernels="reference")
    assert reference is not method and program.load_method("forward") is method
    method([1, 1])
    assert reference([1, 1]).tolist() == [1, 1]
    with pytest.raises(ValueError, match="`kernels` must be"):
        program.load_method("forward", kernels="fast")  # type: ignore[arg-type]


def test_methods_and_unknown_ones(both: tuple[Any, Program]) -> None:
    for program in both:
        assert program.method_names == {"forward"} and type(program.method_names) is set
        with pytest.raises(KeyError, match="backward"):
            program.load_method("backward")
        with pytest.raises(RuntimeError, match="backward"):
            program.metadata("backward")


def test_execute_returns_a_list() -> None:
    pte = small_programs.add_pte()
    tensors = torch.from_numpy(X), torch.from_numpy(X)
    wanted = executorch_runtime.Runtime.get().load_program(pte).load_method("forward")
    method = Runtime.get().load_program(pte).load_method("forward")
    outputs = method.execute([X, X])
    assert type(outputs) is type(wanted.execute(tensors)) is list
    assert_array_equal(outputs[0], wanted.execute(tensors)[0].numpy())
    assert_array_equal(method.execute(tensors)[0], outputs[0])
    assert_array_equal(method.execute(inputs=[X, X], out=None)[0], outputs[0])
    assert_array_equal(method(X, X), outputs[0])


@pytest.mark.parametrize(
    "inputs", [[X], [X, X, X], [X, X[0]], [X, X.astype(np.int32)], [X, np.ones((2, 3), "f4")]]
)
def test_wrong_inputs_have_the_official_codes(inputs: list[np.ndarray]) -> None:
    pte = small_programs.add_pte()
    official = executorch_runtime.Runtime.get().load_program(pte).load_method("forward")
    with pytest.raises(RuntimeError) as theirs:
        official.execute([torch.from_numpy(x) for x in inputs])
    with pytest.raises(RuntimeError) as mine:
        small_programs.load(pte, "forward").execute(inputs)
    code = int(str(theirs.value).split("error 0x")[1].split()[0], 16)
    # The reference reports a wrong rank as a failed resize, we report a wrong argument.
    rank = any(x.ndim != 2 for x in inputs)
    assert mine.value.code == (0x12 if rank else code)  # type: ignore[attr-defined]


# ---- metadata ----


def compare_tensor(theirs: Any, mine: TensorInfo) -> None:
    assert (repr(mine), str(mine)) == (repr(theirs), str(theirs))
    for name in ("sizes", "dtype", "is_memory_planned", "nbytes"):
        actual, wanted = getattr(mine, name)(), getattr(theirs, name)()
        assert (actual, type(actual)) == (wanted, type(wanted))
    assert mine.shape == mine.sizes()


def test_metadata(both: tuple[Any, Program]) -> None:
    official, ours = both
    theirs, mine = official.metadata("forward"), ours.metadata(method_name="forward")
    assert repr(mine) == repr(theirs) and str(mine) == str(theirs)
    for name in ("name", "num_inputs", "num_outputs", "num_attributes"):
        assert getattr(mine, name)() == getattr(theirs, name)()
    for kind in ("input", "output", "attribute"):
        count = getattr(theirs, f"num_{kind}s")()
        for i in range(count):
            name = f"{kind}_tensor_meta"
            compare_tensor(getattr(theirs, name)(i), getattr(mine, name)(index=i))
        for meta in (theirs, mine):
            with pytest.raises(IndexError):
                getattr(meta, f"{kind}_tensor_meta")(count)
    method = ours.load_method("forward")
    assert repr(method.metadata) == repr(official.load_method("forward").metadata)
    assert method.metadata is method.metadata


def test_tensor_info_beyond_the_official() -> None:
    meta = small_programs.load(small_programs.dynamic_pte(), "forward").metadata
    info = meta.input_tensor_meta(0)
    assert (info.shape, info.is_dynamic, info.dim_order, info.name) == ((4, 2), True, (0, 1), None)
    assert info.numpy_dtype == np.float32
    meta = small_programs.load(programs_by_name()["channels_last"], "forward").metadata
    assert meta.output_tensor_meta(0).dim_order == CHANNELS_LAST
    assert not meta.output_tensor_meta(0).is_dynamic
    meta = small_programs.load(small_programs.counter_pte(), "forward").metadata
    assert meta.attribute_tensor_meta(0).name == "total"
    meta = small_programs.load(programs_by_name()["bfloat16"], "forward").metadata
    assert meta.input_tensor_meta(0).numpy_dtype.name == "bfloat16"


def test_kinds_of_values() -> None:
    pte = small_programs.kinds_pte([3, 2.5, True, "hi", None], [None, 7, [1, 2]])
    meta = Runtime.get().load_program(pte).metadata("forward")
    numbers = ("Int", 3), ("Double", 2.5), ("Bool", True)
    assert meta.inputs[1:] == (*numbers, ("String", "hi"), ("None", None))
    kind, info = meta.inputs[0]
    assert kind == "Tensor" and isinstance(info, TensorInfo) and info.shape == (2,)
    assert meta.outputs[1:] == (("None", None), ("Int", 7), ("IntList", None))
    assert "Int(3)" in repr(meta)
    with pytest.raises(IndexError, match="the input is of kind Int"):
        meta.input_tensor_meta(1)


def test_requirements_and_info() -> None:
    program = Runtime.get().load_program(small_programs.add_pte())
    missing = {"missing_operators": [], "missing_backends": [], "missing_devices": []}
    needs = {"operators": {"aten::add.out": 1}, "backends": {}, "uses_kv_cache": False}
    assert program.requirements() == {**needs, **missing}
    info = program.info()
    (method,) = info["methods"]
    assert method["name"] == "forward"
    assert [value["shape"] for value in method["inputs"]] == [[2, 2], [2, 2]]
    assert method["operators"] == [{"name": "aten::add.out", "calls": 1, "available": True}]
    assert info["file_size"] == len(small_programs.add_pte())


# ---- reprs ----


def test_reprs() -> None:
    program = Runtime.get().load_program(small_programs.add_pte())
    method = program.load_method("forward")
    assert repr(program) == "<executorch_c.Program: methods ['forward']>"
    assert repr(method) == "<executorch_c.Method 'forward': 2 inputs, 1 output>"
    runtime, count = Runtime.get(), len(executorch_c.operators())
    assert repr(runtime.operator_registry) == f"<executorch_c.OperatorRegistry: {count} operators>"
    names = runtime.backend_registry.registered_backend_names
    assert repr(runtime.backend_registry) == f"<executorch_c.BackendRegistry: {names!r}>"
    for part in (f"{count} operators", f"{runtime.num_threads} threads", repr(names)):
        assert part in repr(runtime)
    program = Runtime.get().load_program(small_programs.dynamic_pte())
    for item in (Runtime.get(), program):
        assert item._repr_html_().startswith("<table>")
    for item in (program.load_method("forward"), program.metadata("forward")):
        assert "(≤4, ≤2)" in item._repr_html_() and "float32" in item._repr_html_()
        assert "32 bytes" in item._repr_html_() and "2 inputs, 1 output" in item._repr_html_()
    assert "can run here" in program._repr_html_()
    lacking = small_programs.dynamic_pte().replace(b"aten::add", b"aten::a<d")
    html = Runtime.get().load_program(lacking)._repr_html_()
    assert "missing here: operator aten::a&lt;d.out" in html


# ---- import ----


def test_import_loads_little_but_numpy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import executorch_c;"
        "print(*sorted(set(sys.modules) - before))"
    )
    root = os.path.dirname(os.path.dirname(executorch_c.__file__))
    env = {**os.environ, "PYTHONPATH": root}
    out = process.python("-c", code, env=env, cwd=root).stdout.split()
    assert set(out) <= {"__future__", "executorch_c", "executorch_c._core"}


def test_tools_are_imported_by_their_commands(tmp_path: Path) -> None:
    """The start of each command imports the parsers of all."""
    code = """
import sys
from executorch_c import cli
assert cli.main(["demo"]) == 0
tools = ("bench", "blame", "cut", "debug", "llm", "suite.run", "inspect.diagram", "check.run")
print(*[m for m in sys.modules if m.startswith(tuple(f"executorch_c.{one}" for one in tools))])
"""
    done = process.python("-c", code, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "", done.stdout


def test_get_include() -> None:
    assert Path(executorch_c.get_include(), "executorch_c/backend.h").exists()


def test_inputs_by_name() -> None:
    method = executorch_c.load(DIGITS).load_method("forward")
    [name] = names_of_inputs(method)
    x = np.ones((2, 1, 8, 8), np.float32)
    expected = method(x)
    for call in (method.execute, method.run):
        np.testing.assert_array_equal(call({name: x})[0], expected)
        with pytest.raises(TypeError, match=f"no input 'nothing'; its inputs: '{name}'"):
            call({"nothing": x})
        with pytest.raises(TypeError, match=f"input '{name}' is missing"):
            call({})


def test_names_and_strings_with_null_characters() -> None:
    """A C string ends at a null character: "forward" and "hi" were accepted in their place."""
    program = Runtime.get().load_program(small_programs.kinds_pte([3, "hi"], [None, 7]))
    method = program.load_method("forward")
    x = np.zeros(2, np.float32)
    assert method.execute([x, 3, "hi"])[-2:] == [None, 7]
    for call in (
        lambda: program.load_method("forward\0"),
        lambda: program.load_method("forward\0", seed=1),
        lambda: program._structure("forward\0"),
        lambda: method.execute([x, 3, "hi\0"]),
        lambda: executorch_c.unregister_operator("a::b.out\0"),
    ):
        with pytest.raises(ValueError, match=r"\\x00' has a null character"):
            call()


# ---- executorch_c.portable_lib -------------------------------------------------------------------


def mixed(x: Any, n: int) -> Any:
    return x * n, (x > 0), x.to(torch.bfloat16)


@pytest.fixture(scope="module")
def mixed_pte() -> bytes:
    counter = Fn(lambda x, count: count.add_(x).clone(), count=torch.nn.Buffer(torch.zeros(2)))
    methods = {"forward": (mixed, (torch.ones(2, 3), 3)), "count": (counter, (torch.ones(2),))}
    return export(methods, emit_mutable_buffer_names=True)


def test_every_name_is_there() -> None:
    names = {name for name in dir(official_lib) if not name.startswith("__")}
    names -= {"glob", "importlib", "logger", "logging", "os", "spec", "sys"}  # not public
    assert not names - set(dir(portable_lib))


@pytest.mark.parametrize("lib", [official_lib, portable_lib], ids=["official", "ours"])
def test_the_same_calls(lib: Any, mixed_pte: bytes, tmp_path: Any) -> None:
    x = torch.randn(2, 3)
    (tmp_path / "m.pte").write_bytes(mixed_pte)
    buffer = lib._load_for_executorch_from_buffer(
        mixed_pte, program_verification=lib.Verification.Minimal
    )
    for module in (buffer, lib._load_for_executorch(str(tmp_path / "m.pte"))):
        assert sorted(module.method_names()) == ["count", "forward"]
        assert not module.has_etdump()
        for outputs in (
            module.forward([x, 3]),
            module.run_method("forward", (x, 3)),
            module((x, 3)),
        ):
            for actual, expected in zip(outputs, mixed(x, 3), strict=True):
                torch.testing.assert_close(actual, expected)
        for step in (1.0, 2.0):  # state persists
            [count] = module.run_method("count", (torch.ones(2),))
            torch.testing.assert_close(count, torch.full((2,), step))
        meta = module.method_meta("forward")
        assert (meta.name(), meta.num_inputs(), meta.num_outputs()) == ("forward", 2, 3)
        assert meta.input_tensor_meta(0).sizes() == (2, 3)


@pytest.mark.parametrize("lib", [official_lib, portable_lib], ids=["official", "ours"])
def test_programs_and_methods(lib: Any, mixed_pte: bytes) -> None:
    program = lib._load_program_from_buffer(mixed_pte)
    names = [program.get_method_name(i) for i in range(program.num_methods())]
    assert sorted(names) == ["count", "forward"]
    method = program.load_method("count")
    method.set_inputs((torch.ones(2),))
    method.execute()
    torch.testing.assert_close(method.get_outputs()[0], torch.ones(2))
    torch.testing.assert_close(method.get_attribute("count"), torch.ones(2))
    method.get_attribute("count").zero_()
    torch.testing.assert_close(method.call((torch.ones(2),))[0], torch.ones(2))
    assert method.method_meta().name() == "count"


def test_inputs_with_a_history(mixed_pte: bytes) -> None:
    x = torch.randn(3, 2, requires_grad=True)
    module = portable_lib._load_for_executorch_from_buffer(mixed_pte)
    [product, *_] = module.forward([x.t(), 3])
    torch.testing.assert_close(product, x.detach().t() * 3)


def test_bundled_programs(mixed_pte: bytes) -> None:
    x = torch.randn(2, 3)
    good, bad = [x * 3, x > 0, x.to(torch.bfloat16)], [x * 4, x > 0, x.to(torch.bfloat16)]
    data = BundledProgram(mixed_pte, {"forward": [([x, 3], good), ([x, 3], bad)]}).to_bytes()
    bundled = portable_lib._load_bundled_program_from_buffer(data)
    outputs = bundled.verify_result_with_bundled_expected_output("forward", 0)
    torch.testing.assert_close(outputs, good)
    with pytest.raises(RuntimeError, match="outputs differ"):
        bundled.verify_result_with_bundled_expected_output("forward", 1)
    module = portable_lib._load_for_executorch_from_bundled_program(bundled)
    torch.testing.assert_close(module.forward([x, 3]), good)


def test_what_there_is() -> None:
    assert "aten::add.out" in portable_lib._get_operator_names()
    assert set(official_lib._get_operator_names()) <= set(portable_lib._get_operator_names()) | LLM
    assert portable_lib._is_available("BackendWithCompilerDemo")
    assert "BackendWithCompilerDemo" in portable_lib._get_registered_backend_names()
    threads = portable_lib._threadpool_get_thread_count()
    portable_lib._unsafe_reset_threadpool(1)
    assert (
        portable_lib._threadpool_get_thread_count() == executorch_c.Runtime.get().num_threads == 1
    )
    portable_lib._unsafe_reset_threadpool(threads)


LLM = {
    name for name in official_lib._get_operator_names() if name.startswith(("llama::", "preproc"))
}
"""Operators of the reference's LLM library, which this runtime lacks."""
