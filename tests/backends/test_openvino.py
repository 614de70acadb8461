"""OpenvinoBackend: programs on the engine, options, errors; damaged payloads."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime
from executorch_c.devtools import dump
from tests import process
from tests.at_once import run_all
from tests.backends import openvino_blob
from tests.backends.openvino_blob import ID, NAMES, cases, load, payload, program, pte, unpack

installed = importlib.util.find_spec("openvino") is not None
engine = pytest.mark.skipif(not installed, reason="the extra openvino is not installed")
registry = Runtime.get().backend_registry

BF16 = 2e-2
"""Error of the engine's default on processors with bfloat16."""
INT8_STEPS = 127
"""int8 models may differ from eager by a step of the output's range: some weights at ties are
rounded the other way (openvino_ties.py), with which test_flow_matrix.py compares to a step."""


# ---- results -----------------------------------------------------------------------------------


@engine
@pytest.mark.parametrize("name", NAMES)
def test_programs_equal_eager(name: str) -> None:
    inputs, expected = cases(name)
    method = load(pte(name))
    for _ in range(2):
        outputs = method.execute(inputs)
        assert len(outputs) == len(expected)
        for x, y in zip(outputs, expected):
            limit = np.abs(y).max() / INT8_STEPS if "int8" in name else 1e-6
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=limit)
    assert method.backend_report()[0]["figures"]["calls"] == 2


@engine
def test_dynamic_shapes() -> None:
    inputs, _ = cases("mlp_dyn")
    method = load(pte("mlp_dyn"))
    whole = method.execute(inputs)[0]
    for rows in (1, 3, 4, 2):
        [y] = method.execute([inputs[0][:rows]])
        assert y.shape[0] == rows
        np.testing.assert_allclose(y, whole[:rows], rtol=1e-5, atol=1e-6)


@engine
def test_inputs_are_not_changed() -> None:
    inputs, expected = cases("cnn")
    before = inputs[0].copy()
    load(pte("cnn")).execute(inputs)
    np.testing.assert_array_equal(inputs[0], before)
    strided = np.asfortranarray(inputs[0])
    np.testing.assert_allclose(
        load(pte("cnn")).execute([strided])[0], expected[0], rtol=1e-5, atol=1e-5
    )


@engine
def test_a_wrong_weight_is_seen() -> None:
    """A planted fault: the results are those of the payload, not of a cache."""
    constants = unpack(payload("mlp_dyn")).constants
    weights = np.frombuffer(constants, np.float32).copy()
    weights[:64] += 0.5
    inputs, expected = cases("mlp_dyn")
    outputs = load(pte("mlp_dyn").replace(constants, weights.tobytes())).execute(inputs)
    assert np.abs(outputs[0] - expected[0]).max() > 1e-3


# ---- options -----------------------------------------------------------------------------------


@engine
def test_precision_and_threads() -> None:
    inputs, expected = cases("cnn")
    precisions = [{"precision": name} for name in ("auto", "bf16", "f32")]
    for options in (*precisions, {"num_threads": 1}, {"num_threads": 2}):
        [y] = load(pte("cnn"), **options).execute(inputs)
        limit = BF16 if options.get("precision") in ("auto", "bf16") else 1e-5
        np.testing.assert_allclose(y, expected[0], atol=limit)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"precision": "f64"}, 'option \'precision\': expected "f32", "bf16", "f16"'),
        ({"precision": 1}, "option 'precision'"),
        ({"num_threads": -1}, "option 'num_threads': expected 0"),
        ({"num_threads": 1.5}, "option 'num_threads'"),
        ({"profile": 1}, "option 'profile': expected a bool"),
        ({"library": "x"}, "option 'library' is of the process"),
        ({"threads": 1}, "unknown option 'threads', expected precision, num_threads or profile"),
    ],
)
@engine
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(executorch_c.InvalidArgumentError) as caught:
        load(pte("mlp"), **options)
    assert says in str(caught.value)


@engine
def test_options_of_the_process() -> None:
    assert registry.option_keys(ID) == ["library", "precision", "num_threads", "profile"]
    assert registry.get_option(ID, "precision") == "f32"
    assert Path(registry.get_option(ID, "library")).name.startswith("libopenvino_c")
    registry.set_option(ID, "num_threads", 1)
    try:
        load(pte("mlp")).execute(cases("mlp")[0])
        assert registry.get_option(ID, "num_threads") == 1
    finally:
        registry.set_option(ID, "num_threads", 0)
    with pytest.raises(executorch_c.InvalidStateError, match="is loaded, and stays"):
        registry.set_option(ID, "library", "/nowhere/libopenvino_c.so")


@engine
def test_traces_have_the_nodes_of_the_engine() -> None:
    method = load(pte("cnn"), profile=True)
    with method.tracing() as trace:
        method.execute(cases("cnn")[0])
    names = [event.name for event in trace.events if event.kind == "node"]
    assert any(name.startswith("Convolution (") for name in names), names


@engine
def test_threads() -> None:
    inputs, expected = cases("cnn")

    def run() -> None:
        method = load(pte("cnn"))
        for _ in range(20):
            np.testing.assert_allclose(method.execute(inputs)[0], expected[0], rtol=0, atol=1e-5)

    run_all(*[run] * 4)


# ---- descriptions ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_layers_are_described(name: str) -> None:
    """Without the engine: the payload alone."""
    text = str(dump(pte(name)))
    assert "cannot be opened" not in text
    layer = {"cnn": "MaxPool", "mlp": "aten._softmax.default", "transformer": "VariadicSplit"}
    assert layer[name.partition("_")[0]] in text
    inside = openvino_blob.inside(pte(name))
    values = {value["id"]: value for value in inside["values"]}
    arguments = sorted(v["argument"] for v in values.values() if v["argument"] is not None)
    assert arguments == [0, 1]
    for node in inside["nodes"]:
        assert set(node["inputs"]) | set(node["outputs"]) <= set(values)
    written = {index for node in inside["nodes"] for index in node["outputs"]}
    assert next(v for v in values.values() if v["argument"] == 1)["id"] in written


# ---- errors ------------------------------------------------------------------------------------

CODE = """
import sys
import executorch_c
program = executorch_c.load(sys.argv[1])
print(program.info()["methods"][0]["delegates"][0]["lacks"])
print(program.requirements()["missing_backends"])
try:
    program.load_method("forward")
except executorch_c.NotFoundError as error:
    print(error)
runtime = executorch_c.Runtime.get()
print(runtime.backend_registry.option_keys("OpenvinoBackend"))
print(runtime._repr_html_())
"""


def isolated(code: str, tmp_path: Path, *args: str, **env: str) -> list[str]:
    """Return the lines that a new process prints; with a package `openvino` that is empty."""
    if not env.pop("real", ""):
        (tmp_path / "openvino").mkdir()
        (tmp_path / "openvino" / "__init__.py").write_text("")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    # The official runtime's import sets OPENVINO_LIB_PATH for the process.
    inherited = {k: v for k, v in os.environ.items() if k != "OPENVINO_LIB_PATH"}
    done = process.python(
        "-c", code, *args, cwd=tmp_path, env={**inherited, "PYTHONPATH": paths, **env}
    )
    return done.stdout.splitlines()


@pytest.fixture
def mlp_file(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.pte"
    path.write_bytes(pte("mlp"))
    return path


def test_a_missing_wheel_names_the_extra(mlp_file: Path, tmp_path: Path) -> None:
    lacks, missing, error, options, html = isolated(CODE, tmp_path, str(mlp_file))
    assert lacks == "the package openvino is missing: pip install 'executorch_c[openvino]'"
    assert missing == "['OpenvinoBackend']"
    assert f"backend 'OpenvinoBackend' is not available on this machine: {lacks}" in error
    assert options == "['library', 'precision', 'num_threads', 'profile']"
    assert ">OpenvinoBackend</td>" in html and "not available on this machine" in html


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("/nowhere.so", "OpenVINO cannot be loaded: /nowhere.so"),
        ("libm.so.6", "libm.so.6 has no function ov_"),
    ],
)
def test_a_wrong_library(mlp_file: Path, tmp_path: Path, library: str, says: str) -> None:
    code = CODE.replace("NotFoundError", "Error")
    error = isolated(code, tmp_path, str(mlp_file), real="1", OPENVINO_LIB_PATH=library)[2]
    assert says in error and "error 0x" in error


@engine
def test_the_wrong_number_of_arguments_and_dtypes() -> None:
    _, expected = cases("mlp")
    good = payload("mlp")
    shape = expected[0].shape
    assert load(program(good, out=shape))(cases("mlp")[0][0]).shape == shape
    with pytest.raises(executorch_c.InvalidProgramError, match="output 0 is float32 in the model"):
        load(_with_int32_output(program(good, out=shape)))(cases("mlp")[0][0])
    with pytest.raises(executorch_c.InvalidArgumentError, match=r"input 0, int32\[4, 32\]: OpenV"):
        load(program(good, dtype="int32", out=shape))(np.zeros((4, 32), np.int32))
    with pytest.raises(executorch_c.InvalidArgumentError, match=r"input 0, float32\[5, 32\]: Op"):
        load(program(good, shape=(5, 32), out=shape))(np.zeros((5, 32), np.float32))
    with pytest.raises(executorch_c.Error, match="but the program fixes it to"):
        load(program(good, out=(2, 2)))(cases("mlp")[0][0])


def _with_int32_output(data: bytes) -> bytes:
    from executorch.exir.schema import ScalarType, Tensor
    from tests.plans import edited

    def edit(program: Any) -> None:
        plan = program.execution_plan[0]
        value = plan.values[plan.outputs[0]].val
        assert isinstance(value, Tensor)
        value.scalar_type = ScalarType.INT

    return edited(data, edit)


@engine
@pytest.mark.parametrize("device", [b"NPU", b"GPU", b"FOO"])
def test_a_missing_device(device: bytes) -> None:
    with pytest.raises(executorch_c.Error, match=f"{device.decode()}.*OpenVINO 20"):
        load(program(payload("mlp"), device=device))


@engine
@pytest.mark.parametrize("device", [b"", b"cpu;x", b"A" * 64, b"AUTO:CPU", b"\xff"])
def test_a_damaged_device(device: bytes) -> None:
    with pytest.raises(executorch_c.InvalidProgramError, match="compile spec 'device'"):
        load(program(payload("mlp"), device=device))


@engine
def test_another_format_names_both_versions() -> None:
    with pytest.raises(executorch_c.DelegateInvalidCompatibilityError) as caught:
        load(program(b"\1" * 4096))
    assert "not in the format of OpenVINO 2025" in str(caught.value)
    assert "installed engine is OpenVINO 20" in str(caught.value)


@engine
def test_an_operator_of_another_release_names_both_versions() -> None:
    blob = unpack(payload("mlp_dyn"))
    changed = blob.edited(b'version="ie_internal_opset"', b'version="of_other_release00"')
    with pytest.raises(executorch_c.DelegateInvalidCompatibilityError) as caught:
        load(program(changed.pack()))
    text = str(caught.value)
    assert "the format of OpenVINO 2025 (IR 11)" in text and ": OpenVINO 20" in text


@engine
def test_max_bytes() -> None:
    with pytest.raises(executorch_c.MemoryAllocationFailedError):
        Runtime.get().load_program(pte("mlp")).load_method("forward", max_bytes=20_000)


FORK = """
import os, sys
import numpy as np
import executorch_c
inputs = list(np.load(sys.argv[2]).values())
method = executorch_c.load(sys.argv[1]).load_method("forward")
method.execute(inputs)
pid = os.fork()
if not pid:
    said = []
    for call in (lambda: method.execute(inputs),
                 lambda: executorch_c.load(sys.argv[1]).load_method("forward")):
        try:
            call()
        except executorch_c.InvalidStateError as error:
            said.append("threads are lost" in str(error))
    os._exit(0 if said == [True, True] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
method.execute(inputs)
"""


@engine
def test_a_forked_process_is_refused(mlp_file: Path, tmp_path: Path) -> None:
    """The engine's threads do not exist there: a call would wait for them forever."""
    np.savez(tmp_path / "x.npz", *cases("mlp")[0])
    assert isolated(FORK, tmp_path, str(mlp_file), "x.npz", real="1") == ["0"]


# ---- damaged payloads --------------------------------------------------------------------------


def damaged() -> dict[str, bytes]:
    blob = unpack(payload("mlp_dyn"))
    whole = blob.pack()
    return {
        "empty": b"",
        "only a header": whole[:48],
        "cut": whole[:-1],
        "longer": whole + b"x",
        "a large part": whole[:24] + b"\xff" * 8 + whole[32:],
        "no XML": openvino_blob.Blob(blob.about, blob.constants, b"x" * 400, blob.key).pack(),
        "a constant outside": blob.edited(b'offset="0" size="', b'offset="9" size="9').pack(),
        "a negative offset": blob.edited(b'offset="0"', b'offset="-4"').pack(),
        "a layer twice": blob.edited(b'<layer id="1"', b'<layer id="0"').pack(),
        "a large number": blob.edited(b'<layer id="1"', b'<layer id="4294967295"').pack(),
        "an edge of nobody": blob.edited(b'from-layer="0"', b'from-layer="99"').pack(),
        "a port of nobody": blob.edited(b'from-port="0"', b'from-port="7"').pack(),
        "an input without an edge": blob.edited(
            b'<edge from-layer="3"', b'<hedge from-layer="3"'
        ).pack(),
        "an input twice": blob.edited(
            b'to-layer="3" to-port="1"', b'to-layer="3" to-port="0"'
        ).pack(),
        "an operator without inputs": blob.edited(b'type="Const"', b'type="MaxPool"').pack(),
        "no layers": blob.edited(b"<layers>", b"<lawyers>").pack(),
    }


@pytest.mark.parametrize("name", damaged())
def test_damaged_payloads(name: str) -> None:
    """Refused before the engine sees them; described with the same error."""
    data = program(damaged()[name])
    if installed:
        with pytest.raises(executorch_c.InvalidProgramError):
            load(data)
    assert "cannot be opened" in str(dump(data))
