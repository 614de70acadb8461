"""libexecutorch_c as users have it: the installed header, libraries and descriptions of them; the
outputs of ec-run equal the package's, wrong arguments and hostile files are one sentence."""

import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c.bundled import BundledProgram
from executorch_c.inspect import read_etdump
from tests import process
from tests.api import c_library
from tests.plans import Plan, build


pytestmark = pytest.mark.heavy

SOURCE = c_library.ROOT / "csrc/api/example.c"


@pytest.fixture(scope="module")
def model() -> Path:
    """A portable program of one float32 input."""
    torch = pytest.importorskip("torch")
    layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    return c_library.program("model", torch.nn.Sequential(*layers), torch.ones(3, 4))


def flags(*options: str) -> list[str]:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    environment = {"PKG_CONFIG_PATH": str(c_library.prefix() / "lib/pkgconfig"), "PATH": "/usr/bin"}
    return process.run("pkg-config", *options, "executorch_c", env=environment).stdout.split()


def first_output(model: Path) -> str:
    (out,) = executorch_c.load(model).load_method("forward").execute([np.ones((3, 4), np.float32)])
    return f"float32 3 2: {float(np.asarray(out).flat[0]):.9g}\n"


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_the_example_runs(static: bool, model: Path, tmp_path: Path) -> None:
    prefix, program = c_library.prefix(), tmp_path / "example"
    link = flags("--cflags", "--libs")
    if static:
        link = [*flags("--cflags"), str(prefix / "lib/libexecutorch_c.a"), "-lm", "-lpthread"]
    compiler = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, str(SOURCE), "-o", str(program), *link], check=True)
    environment = {"LD_LIBRARY_PATH": str(prefix / "lib")}
    done = process.run(program, model, env=environment, ok=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == first_output(model)
    wrong = process.run(program, "none.pte", env=environment, ok=False)
    assert wrong.returncode == 1 and wrong.stderr.startswith("error 0x22: ")


def test_cmake_finds_the_package(model: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or subprocess.run(["cmake", "--version"]).returncode:
        pytest.skip("cmake is not installed")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(example C)\n"
        "find_package(executorch_c 0.1 REQUIRED)\n"
        f"foreach(kind executorch_c static)\n  add_executable(${{kind}} {SOURCE})\n"
        "  target_link_libraries(${kind} executorch_c::${kind})\nendforeach()\n"
    )
    for command in (
        ["cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={c_library.prefix()}"],
        ["cmake", "--build", "b"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for kind in ("executorch_c", "static"):
        done = process.run(tmp_path / "b" / kind, model, ok=False)
        assert done.stdout == first_output(model), done.stderr


def test_only_the_interface_is_exported() -> None:
    library = c_library.prefix() / "lib/libexecutorch_c.so"
    names = process.run("nm", "-D", "--defined-only", library).stdout.split()[2::3]
    assert len(names) > 15 and all(name.startswith("ecr_") for name in names), names


@pytest.mark.parametrize("compiler", [["gcc", "-std=c99"], ["g++", "-std=c++11", "-xc++"]])
def test_the_headers_stand_alone(compiler: list[str], tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("#include <executorch_c/executorch_c.h>\nint x;\n")
    warnings, include = ("-Wall", "-Wextra", "-pedantic", "-Werror"), c_library.prefix() / "include"
    command = [*compiler, *warnings, "-c", "one.c", f"-I{include}"]
    subprocess.run(command, cwd=tmp_path, check=True)


# ---- ec-run --------------------------------------------------------------------------------------

BACKENDS = c_library.ROOT / "tests/backends"
PROGRAMS = [
    *sorted((BACKENDS / "coreml_programs").glob("*.pte")),
    *sorted((BACKENDS / "tosa_programs").glob("*.pte"))[:4],
    *sorted((BACKENDS / "vulkan_programs").glob("*.pte"))[:6],
]
MLP = BACKENDS / "coreml_programs/mlp_fp32.pte"


def recorded(program: Path) -> list[np.ndarray]:
    with np.load(program.with_suffix(".npz")) as file:
        return [file[key] for key in sorted(file) if key.startswith("in")]


@pytest.mark.parametrize("kind", ["npy", "npz", "raw"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_outputs_equal_those_of_the_package(program: Path, kind: str, tmp_path: Path) -> None:
    inputs, files = recorded(program), []
    if kind == "npz":
        np.savez(tmp_path / "all.npz", *inputs)
        files = [tmp_path / "all.npz"]
    for i, array in enumerate(inputs if kind != "npz" else ()):
        files.append(tmp_path / f"{i}.{kind}")
        if kind == "npy":
            np.save(files[-1], array)
        else:
            array.tofile(files[-1])
    if kind == "raw" and program.stem.endswith("dyn"):
        return  # raw bytes have the largest shape
    options = [part for file in files for part in ("-i", file)]
    done = c_library.run(*options, "-o", tmp_path / "out", program)
    assert (done.returncode, done.stderr) == (0, "")
    method = executorch_c.load(program).load_method("forward", delegate_at_load=False)
    for i, expected in enumerate(method.execute(inputs)):
        out = np.load(tmp_path / f"out/out{i}.npy")
        assert out.dtype == expected.dtype and out.shape == expected.shape
        np.testing.assert_array_equal(out, expected)


def test_any_layout_of_an_input_is_read(tmp_path: Path) -> None:
    cnn = BACKENDS / "coreml_programs/cnn_fp32.pte"
    (x,) = recorded(cnn)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.save(tmp_path / "c.npy", x)
    for name in "fc":
        done = c_library.run("-i", tmp_path / f"{name}.npy", "-o", tmp_path / name, cnn)
        assert done.returncode == 0, done.stderr
    outputs = [np.load(tmp_path / name / "out0.npy") for name in "fc"]
    np.testing.assert_array_equal(*outputs)


def test_help_and_lists() -> None:
    text = c_library.run("--help").stdout
    assert all(len(line) <= 80 for line in text.splitlines()) and "--input FILE" in text
    listing = c_library.run("--list", MLP).stdout
    assert listing == "method forward\n  in0: float32 (4, 32)\n  out0: float32 (4, 12)\n"
    assert "3 runs: fastest" in c_library.run("-n", 3, MLP).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "match"),
    [
        ([], 2, "MODEL: missing"),
        (["a", "b"], 2, "MODEL: more than one"),
        (["-n", "0", MLP], 2, "0: not a number from 1"),
        (["-t", "-3", MLP], 2, "-3: not a number from 1"),
        (["--rtol", "x", MLP], 2, "x: not a limit"),
        (["--nonsense", MLP], 2, "unrecognized option"),
        (["none.pte"], 1, "none.pte: No such file"),
        (["/"], 1, "/: Invalid argument"),
        (["-m", "other", MLP], 1, "no method 'other'"),
        (["-i", "none.npy", MLP], 1, "none.npy: No such file"),
        (["-i", MLP, MLP], 1, "raw bytes, input 0 needs 512"),
        (["-d", "none.ptd", MLP], 1, "none.ptd"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments: list[object], code: int, match: str) -> None:
    done = c_library.run(*arguments)
    assert done.returncode == code and match in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


def cpu_seconds(process: int) -> float:
    """Return the time that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_the_end_by_a_signal_names_the_operator(tmp_path: Path) -> None:
    """The program is an endless loop, in its operator almost always."""
    plan = Plan()
    x, y = plan.input((1 << 20,)), plan.output((1 << 20,))
    plan.call("aten::sin.out", x, y)
    plan.jump_false(False, 0)
    file = tmp_path / "endless.pte"
    file.write_bytes(build(plan))
    command = [str(c_library.prefix() / "bin/ec-run"), "-t", "1", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None and cpu_seconds(running.pid) < 0.3:
            time.sleep(0.01)
        running.send_signal(signal.SIGSEGV)
        _, said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGSEGV
    assert said == f"ec-run: {file}: ended by SIGSEGV in aten::sin.out\n"


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header.encode() + data
    )


def shaped(shape: str, descr: str = "<f4") -> bytes:
    return npy(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}")


HOSTILE = {
    "empty": (b"\x00", "not a .npy file"),
    "cut": (npy("")[:9] + b"\xff\xff\xff", "cut off"),
    "object": (shaped("4, 32), }", "|O"), "dtype"),
    "no shape": (npy("{'descr': '<f4', 'fortran_order': False, }"), "not understood"),
    "endless shape": (shaped("4, "), "not understood"),
    "negative": (shaped("-4, 32), }"), "not understood"),
    "huge": (shaped(f"{2**40}, {2**40}), }}"), "too large"),
    "short": (shaped("4, 32), }"), "cut off"),
    "ranks": (shaped("1," * 40 + "), }"), "not understood"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_array_is_one_sentence(name: str, tmp_path: Path) -> None:
    data, match = HOSTILE[name]
    (tmp_path / "x.npy").write_bytes(data)
    done = c_library.run("-i", tmp_path / "x.npy", MLP)
    assert done.returncode == 1 and match in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_hostile_archives_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, recorded(MLP)[0])
    assert "savez_compressed" in c_library.run("-i", path, MLP).stderr
    np.savez(path, recorded(MLP)[0])
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] or b"\x00")
        done = c_library.run("-i", path, MLP)
        assert done.returncode in (0, 1) and done.stderr.count("\n") <= 1, done.stderr


def test_damaged_programs_are_one_sentence(tmp_path: Path) -> None:
    data, rng = MLP.read_bytes(), np.random.default_rng(0)
    path, codes = tmp_path / "x.pte", set()
    for _ in range(100):
        copy = bytearray(data)
        for _ in range(4):
            copy[rng.integers(len(copy))] = rng.integers(256)
        path.write_bytes(copy)
        done = c_library.run(path)
        codes.add(done.returncode)
        assert done.returncode in (0, 1) and done.stderr.count("\n") <= 1, done.stderr
    assert codes == {0, 1}


def test_a_bundled_program_runs_its_cases(tmp_path: Path) -> None:
    inputs = recorded(MLP)
    expected = executorch_c.load(MLP).load_method("forward").execute(inputs)
    for name, change, code in (("right", 0.0, 0), ("wrong", 0.5, 3)):
        wanted = [a + np.float32(change) for a in expected]
        bundled = BundledProgram(MLP.read_bytes(), {"forward": [(inputs, wanted)]})
        (tmp_path / f"{name}.bpte").write_bytes(bundled.to_bytes())
        done = c_library.run(tmp_path / f"{name}.bpte")
        assert done.returncode == code, done.stderr
        assert ("match" if code == 0 else "differ") in done.stdout


def test_the_official_inspector_reads_an_etdump(tmp_path: Path) -> None:
    devtools = pytest.importorskip("executorch.devtools")
    path = tmp_path / "run.etdp"
    done = c_library.run("-n", 3, "--etdump", path, MLP)
    assert done.returncode == 0, done.stderr
    block = next(b for b in devtools.Inspector(str(path)).event_blocks if b.name == "Execute")
    names = [event.name for event in block.events]
    # nodes by their debug handles: linear, relu, linear, softmax
    assert names == ["1", "2", "3", "4", "DELEGATE_CALL", "Method::execute"], names
    assert all(len(event.perf_data.raw) == 3 for event in block.events)
    own = next(b for b in read_etdump(path).blocks if b.name == "Execute")
    assert [(row.name, len(row.ticks)) for row in own.rows] == [(name, 3) for name in names]
    assert all(time >= 0 for event in block.events for time in event.perf_data.raw)
    wrong = c_library.run("--etdump", tmp_path / "none/x.etdp", MLP)
    assert wrong.returncode == 1 and "No such file" in wrong.stderr


def test_a_portable_program_has_the_official_names(tmp_path: Path) -> None:
    devtools = pytest.importorskip("executorch.devtools")
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(4, 2))
    pte = c_library.program("linear", module, torch.ones(3, 4))
    done = c_library.run("--etdump", tmp_path / "e.etdp", pte)
    assert done.returncode == 0, done.stderr
    method = executorch_c.load(pte).load_method("forward", delegate_at_load=False)
    with method.tracing() as trace:
        method.execute([np.ones((3, 4), np.float32)])
    trace.to_etdump(tmp_path / "p.etdp")
    names = []
    for name in ("e", "p"):
        blocks = devtools.Inspector(str(tmp_path / f"{name}.etdp")).event_blocks
        names.append([e.name for b in blocks if b.name == "Execute" for e in b.events])
    assert names[0] == names[1] and "native_call_addmm.out" in names[0], names
