"""csrc/ninja_build.py, which setup.py and the tests compile with: the files that are rebuilt."""

import ctypes
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "csrc"))
import ninja_build

pytestmark = pytest.mark.skipif(
    not shutil.which(ninja_build.compiler()[0]), reason="no compiler is known"
)


class Project:
    """Two sources, a header and a linked library, in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a folder"
        self.folder.mkdir()
        self.target = self.folder / "libsum$.so"
        self.library = self.folder / "library"
        self.flags = ["-fPIC", "-DGIVEN=1"]
        self.write("one.c", '#include "one.h"\nint two(void);\nint sum(void){return ONE + two();}')
        self.write("two.c", "int two(void) { return GIVEN + 1; }")
        self.write("one.h", "#define ONE 1")
        self.write("library", "")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        os.utime(path, ns=(time.time_ns(),) * 2)

    def build(self) -> set[str]:
        """Build, and return the names of the files that were written."""
        before = self.times()
        sources = [self.folder / name for name in ("one.c", "two.c")]
        objects = ninja_build.Objects("sum", sources, self.flags)
        wanted = ninja_build.SharedObject(self.target, [objects], libraries=[self.library])
        ninja_build.build([wanted], self.folder / "objects")
        after = self.times()
        return {path.name for path, written in after.items() if before.get(path) != written}

    def times(self) -> dict[Path, int]:
        items = [*self.folder.rglob("*.o"), *self.folder.glob("*.so")]
        return {path: path.stat().st_mtime_ns for path in items}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    result = Project(tmp_path)
    assert result.build() == {"one.c.o", "two.c.o", "libsum$.so"}
    assert ctypes.CDLL(str(result.target)).sum() == 3
    return result


def test_nothing_is_built_twice(project: Project) -> None:
    assert project.build() == set()


def test_a_header_rebuilds_the_sources_that_include_it(project: Project) -> None:
    project.write("one.h", "#define ONE 10")
    assert project.build() == {"one.c.o", "libsum$.so"}
    shutil.copy(project.target, project.folder / "copy")  # a process caches a library by name
    assert ctypes.CDLL(str(project.folder / "copy")).sum() == 12


def test_flags_concern_all_objects(project: Project) -> None:
    project.flags.append("-DGIVEN_TOO")
    assert project.build() == {"one.c.o", "two.c.o", "libsum$.so"}


def test_a_library_that_changes_is_linked_again(project: Project) -> None:
    project.write("library", "of another build")
    assert project.build() == {"libsum$.so"}


def test_an_error_of_the_compiler_is_an_exception(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.write("two.c", "int two(void) { return unknown; }")
    with pytest.raises(ninja_build.BuildError, match="does not compile"):
        project.build()
    assert "unknown" in capfd.readouterr().out


def test_the_layers_of_build_mk_are_folders_with_sources() -> None:
    lists = ninja_build.variables()
    for layer in lists["LAYERS"]:
        assert ninja_build.sources(ninja_build.CSRC / layer), layer
    listed = [name for key, names in lists.items() if key.startswith("SHARED_") for name in names]
    for name in [*listed, *lists["HARNESS"]]:
        assert (ninja_build.CSRC / name).is_file(), name


def test_no_binary_names_the_folder_of_its_build() -> None:
    path = ninja_build.CSRC / "core" / "error.c"
    assert ninja_build.relative(path) == "csrc/core/error.c"
    assert all(not flag.startswith("-I/") for flag in ninja_build.includes())
