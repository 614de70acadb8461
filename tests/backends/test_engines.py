"""Each engine that is not the device's, and what the device does differently: `info`, checks."""

from pathlib import Path

import pytest

from executorch_c import Runtime, _engines, _extras, cli
from executorch_c.bench import turns
from executorch_c.check import facts
from tests.single_op import Out, SingleOps

HERE = Path(__file__).parent
PROGRAMS = {
    "VulkanBackend": "vulkan_programs/mlp.pte",
    "CoreAIBackend": "coreai_programs/mlp_dyn.pte",
    "CoreMLBackend": "coreml_programs/mlp_fp32.pte",
    "TOSABackend": "tosa_programs/mlp_int8.pte",
    "VgfBackend": "tosa_programs/vgf_cnn_int8.pte",
    "MLXBackend": "mlx_programs/mlp.pte",
    "NativeBackend": "native_programs/mlp.pte",
    "OpenvinoBackend": "programs/openvino_mlp.pte",
    "Cadence": "cadence_programs/mlp_q8.pte",
}
EXTRAS = {"CoreAIBackend": ("coreai", "coreai.authoring"), "OpenvinoBackend": ("openvino",) * 2}
"""Engines of optional packages: the extra, and a module of the package."""
ABOUT = {**_engines.DEVICES, **{name: about for name, about in _engines.LIBRARIES.values()}}


def cortex_m() -> bytes:
    import numpy as np

    ops = SingleOps()
    args = [np.ones(3, np.float32), 0.1, 0, -128, 127, 1]
    ops.add("cortex_m::quantize_per_tensor.out", *args, Out((3,), "int8"), name="forward")
    return ops.build()


def check_hints(name: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that `info`, and the notes of checks, have the engine and the hint."""
    program = Runtime.get().load_program(path.read_bytes())
    (note,) = facts._on_other_engines(program)
    assert note.startswith(f"{name}: ") and ABOUT[name] in note, note
    engines = {use["engine"] for m in program.info()["methods"] for use in m["delegates"]}
    assert all(engine and engine in note for engine in engines), note
    cli.main(["info", str(path)])
    assert note in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", PROGRAMS)
def test_hints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    extra, module = EXTRAS.get(name, ("", ""))
    if extra and not _extras.is_installed(module):
        pytest.skip(f"needs the extra {extra}")
    check_hints(name, HERE / PROGRAMS[name], capsys)


def test_hints_of_cortex_m(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.pte"
    path.write_bytes(cortex_m())
    check_hints("Cortex-M", path, capsys)


def test_every_hint_has_a_program() -> None:
    assert ABOUT.keys() == {*PROGRAMS, "Cortex-M", "XnnpackBackend"}


def test_a_missing_engine_has_no_hint() -> None:
    """Nothing runs there: `info` says what is missing."""
    program = Runtime.get().load_program((HERE / PROGRAMS["VulkanBackend"]).read_bytes())
    (method,) = program.info()["methods"]
    method["delegates"][0]["engine"] = None
    assert list(_engines.hints(method)) == []


def test_an_unknown_interpreter_has_a_general_hint() -> None:
    program = Runtime.get().load_program((HERE / PROGRAMS["VulkanBackend"]).read_bytes())
    (method,) = program.info()["methods"]
    method["delegates"][0]["id"] = "Other"
    assert list(_engines.hints(method)) == [
        "Other: interpreted on the CPU; the device's own arithmetic is not checked"
    ]


def test_times_of_an_interpreter_are_not_those_of_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = HERE / PROGRAMS["VulkanBackend"]
    said = "VulkanBackend is interpreted on the CPU: its times are not those of a device"
    assert cli.main(["trace", str(path)]) == 0
    assert said in capsys.readouterr().out
    program = Runtime.get().load_program(path)
    (method,) = program.info()["methods"]
    method["delegates"][0]["engine"] = "XNNPACK 2024-11-08"
    assert list(_engines.untimed(method)) == []
    assert turns._notes([path, path], [], "forward") == (said,)
    assert turns._notes([tmp_path / "none.pte"], [], "forward") == ()


def test_info_fits_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for name in PROGRAMS.values():
        assert cli.main(["info", str(HERE / name)]) == 0
        assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())
