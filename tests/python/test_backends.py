"""Installed backends are found through entry points, on first use, and entry points are those that
importlib.metadata finds."""

import ast
import os
import sys
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import executorch_c
from executorch_c import _entry_points
from executorch_c._entry_points import EntryPoint, entry_points
from tests import process
from tests.plans import Plan, build


CODE = """
import sys, warnings
from executorch_c import Runtime
registry = Runtime.get().backend_registry
assert "importlib.metadata" not in sys.modules
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    names = registry.registered_backend_names
    assert registry.registered_backend_names == names
print(sorted(names))
print([str(one.message) for one in caught])
"""


NAME = "a_backend-1.0.dist-info"


def distribution(site: Path, name: str, text: str) -> None:
    """Create a distribution with only entry points."""
    info = site / name
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.partition('-')[0]}\n")
    (info / "entry_points.txt").write_text(text)


def run(site: Path) -> list[str]:
    root = Path(executorch_c.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(root)])}
    done = process.python("-c", CODE, env=env, cwd=root)
    return done.stdout.splitlines()


@pytest.mark.parametrize("attribute", ["", ":backends"])
def test_backends_of_an_entry_point(tmp_path: Path, attribute: str) -> None:
    pytest.importorskip("executorch_c._backend_demo")
    row = f"x = executorch_c._backend_demo{attribute}"
    distribution(tmp_path, NAME, f"[executorch_c.backends]\n{row}\n")
    names, warned = run(tmp_path)
    kinds = "CoreML MLX Native Openvino TOSA Vgf Vulkan Xnnpack".split()  # of the installation
    others = set(ast.literal_eval(names)) - {f"{kind}Backend" for kind in kinds}
    assert others == {"BackendWithCompilerDemo", "ExecutorBackend"}
    assert warned == "[]"


@pytest.mark.parametrize(
    ("value", "match"), [("no.such.module", "No module named"), ("os:sep", "capsule named")]
)
def test_a_broken_entry_point_is_a_warning(tmp_path: Path, value: str, match: str) -> None:
    distribution(tmp_path, NAME, f"[executorch_c.backends]\nbroken = {value}\n")
    _, warned = run(tmp_path)
    assert f"({value}) cannot be used" in warned and match in warned


def test_plug_ins_are_loaded_when_needed(tmp_path: Path) -> None:
    """A program whose calls may be delegated needs XNNPACK alone; a list needs all plug-ins."""
    plan = Plan()
    x, y = plan.input((256, 1024)), plan.output((256, 1024))
    plan.call("aten::add.out", x, x, 1, y)
    path = tmp_path / "add.pte"
    path.write_bytes(build(plan))
    code = (
        "import sys, executorch_c\n"
        "def loaded():\n"
        "    print(*(n[22:] for n in sys.modules if n.startswith('executorch_c._backend_')))\n"
        f"executorch_c.load({str(path)!r}).load_method('forward')\n"
        "loaded()\n"
        "executorch_c.Runtime.get().backend_registry.registered_backend_names\n"
        "loaded()\n"
    )
    run = process.python("-c", code, cwd=tmp_path)
    first, everything = (set(line.split()) for line in run.stdout.splitlines())
    assert first <= {"xnnpack"} < everything and "operators" in everything


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


def pairs(points: Mapping[str, Iterable[Any]], group: str) -> list[tuple[str, str]]:
    return sorted((point.name, point.value) for point in points[group])


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two empty folders at the front of sys.path."""
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(sys, "path", [str(first), str(second), *sys.path])
    return first, second


@pytest.mark.parametrize("group", GROUPS)
def test_this_environment(group: str) -> None:
    assert _entry_points.has_only_folders()
    expected = pairs({group: metadata.entry_points(group=group)}, group)
    assert pairs(entry_points(*GROUPS), group) == expected
    assert expected or group.startswith("executorch_c")


def test_a_file(sites: tuple[Path, Path]) -> None:
    distribution(sites[0], "some_package-1.0.dist-info", TEXT)
    expected = pairs({"our.group": metadata.entry_points(group="our.group")}, "our.group")
    points = entry_points("our.group")
    assert pairs(points, "our.group") == expected and len(expected) == 3
    spaced = next(point for point in points["our.group"] if point.name == "spaced")
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
