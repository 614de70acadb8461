"""libexecutorch_c as users have it: the installed header, libraries and descriptions of them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from tests import process
from tests.api import c_library

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
