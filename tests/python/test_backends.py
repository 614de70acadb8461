"""Installed backends are found through entry points, on first use."""

import ast
import os
from pathlib import Path

import pytest

import executorch_c
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


def run(site: Path) -> list[str]:
    root = Path(executorch_c.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(root)])}
    done = process.python("-c", CODE, env=env, cwd=root)
    return done.stdout.splitlines()


def install(site: Path, entry_point: str) -> None:
    """Create a distribution with only an entry point."""
    info = site / "a_backend-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a_backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[executorch_c.backends]\n{entry_point}\n")


@pytest.mark.parametrize("attribute", ["", ":backends"])
def test_backends_of_an_entry_point(tmp_path: Path, attribute: str) -> None:
    pytest.importorskip("executorch_c._backend_demo")
    install(tmp_path, f"x = executorch_c._backend_demo{attribute}")
    names, warned = run(tmp_path)
    # Their places in the installation:
    of_the_package = set(
        (
            "CoreMLBackend NativeBackend OpenvinoBackend TOSABackend VgfBackend "
            "VulkanBackend XnnpackBackend"
        ).split()
    )
    found = set(ast.literal_eval(names)) - of_the_package
    assert found == {"BackendWithCompilerDemo", "ExecutorBackend"}
    assert warned == "[]"


@pytest.mark.parametrize(
    ("value", "match"), [("no.such.module", "No module named"), ("os:sep", "capsule named")]
)
def test_a_broken_entry_point_is_a_warning(tmp_path: Path, value: str, match: str) -> None:
    install(tmp_path, f"broken = {value}")
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
