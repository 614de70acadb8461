"""Entry points of installed packages: those that importlib.metadata finds."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from executorch_c import _entry_points
from executorch_c._entry_points import EntryPoint, entry_points

GROUPS = ("console_scripts", "executorch_c.backends", "executorch_c.operators", "pytest11")
TEXT = """\
# a comment
[other]
x = wrong:one

[our.group]
plain = some.module
  spaced  =  some.module : an.attribute  [extra]
; = odd
# no = entry
[our.group.more]
y = wrong:two
"""


def pairs(found: dict[str, list[EntryPoint]], group: str) -> list[tuple[str, str]]:
    return sorted((point.name, point.value) for point in found[group])


def distribution(site: Path, name: str, text: str) -> None:
    info = site / name
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.partition('-')[0]}\n")
    (info / "entry_points.txt").write_text(text)


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two empty folders at the front of sys.path."""
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(sys, "path", [str(first), str(second), *sys.path])
    return first, second


@pytest.mark.parametrize("group", GROUPS)
def test_this_environment(group: str) -> None:
    assert _entry_points.has_only_folders()
    expected = sorted((point.name, point.value) for point in metadata.entry_points(group=group))
    assert pairs(entry_points(*GROUPS), group) == expected
    assert expected or group.startswith("executorch_c")


def test_a_file(sites: tuple[Path, Path]) -> None:
    distribution(sites[0], "some_package-1.0.dist-info", TEXT)
    expected = sorted(
        (point.name, point.value) for point in metadata.entry_points(group="our.group")
    )
    found = entry_points("our.group")
    assert pairs(found, "our.group") == expected and len(expected) == 3
    spaced = next(point for point in found["our.group"] if point.name == "spaced")
    assert (spaced.module, spaced.attribute) == ("some.module", "an.attribute")


def test_the_first_distribution_of_a_name_counts(sites: tuple[Path, Path]) -> None:
    distribution(sites[0], "Some.Package-2.0.dist-info", "[g]\na = m:new\n")
    distribution(sites[1], "some_package-1.0.egg-info", "[g]\na = m:old\n")
    distribution(sites[1], "other-1.0.egg-info", "[g]\nb = m:b\n")
    assert pairs(entry_points("g"), "g") == [("a", "m:new"), ("b", "m:b")]


def test_an_archive_on_the_path(sites: tuple[Path, Path], tmp_path: Path) -> None:
    archive = tmp_path / "wheel.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\n")
        out.writestr("zipped-1.0.dist-info/entry_points.txt", "[g]\nz = m:z\n")
    distribution(sites[0], "folder-1.0.dist-info", "[g]\na = m\n")
    sys.path.append(str(archive))
    assert not _entry_points.has_only_folders()
    assert pairs(entry_points("g"), "g") == [("a", "m"), ("z", "m:z")]


def test_files_that_cannot_be_read_are_skipped(sites: tuple[Path, Path]) -> None:
    distribution(sites[0], "bad-1.0.dist-info", "")
    (sites[0] / "bad-1.0.dist-info/entry_points.txt").write_bytes(b"[g]\n\xff = m\n")
    (sites[0] / "folder-1.0.dist-info/entry_points.txt").mkdir(parents=True)
    distribution(sites[0], "good-1.0.dist-info", "[g]\na = m\n")
    assert pairs(entry_points("g"), "g") == [("a", "m")]


def test_load() -> None:
    assert EntryPoint("a", "os").load() is sys.modules["os"]
    assert EntryPoint("a", "os:path.join").load() is sys.modules["os"].path.join
    with pytest.raises(ValueError, match="found 'os:', expected 'module' or 'module:attribute'"):
        EntryPoint("a", "os:").load()
    with pytest.raises(ModuleNotFoundError):
        EntryPoint("a", "no_such_module:x").load()
