"""The demo backends as a wheel of their own, as backends/demo/README.md says: built outside of the
checkout with the installed header alone, found through its entry point."""

import os
import re
import shutil
from pathlib import Path

import pytest

import executorch_c
from tests import process
from tests.plans import Plan, build, schema

DEMO = Path(__file__).resolve().parents[2] / "backends" / "demo"
PAYLOAD = b"1version:0#op:demo::aten.sin.default, numel:2, dtype:torch.float32<debug_handle>1#"
CODE = """
import numpy, executorch_c
method = executorch_c.load("x.pte").load_method("forward")
print(method(numpy.ones(2, "f4")).tolist())
"""


def run(folder: Path, *command: str, **env: str) -> str:
    done = process.python(*command, cwd=folder, env={**os.environ, **env})
    return done.stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the folder of the README's package. Its backends have ids of their own."""
    readme = (DEMO / "README.md").read_text()
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", readme, re.M | re.S)
    (setup,) = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    folder = tmp_path / "package"
    (folder / "src").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(toml)
    (folder / "setup.py").write_text(setup)
    for path in (*DEMO.glob("*.c"), *DEMO.glob("*.h")):
        shutil.copy(path, folder / "src")
    for name in ("compiler_demo.c", "executor_backend.c"):
        path = folder / "src" / name
        path.write_text(re.sub(r'(\.id = ")', r"\1OutOfTree", path.read_text()))
    return folder


def test_a_wheel_of_its_own(package: Path, tmp_path: Path) -> None:
    root = str(Path(executorch_c.__file__).parents[1])
    env = {"PYTHONPATH": root, "CFLAGS": "-Wall -Wextra -Werror"}
    options = "--no-build-isolation --no-deps -q -w dist".split()
    run(package, "-m", "pip", "wheel", *options, ".", **env)
    (wheel,) = (package / "dist").glob("*.whl")
    site = tmp_path / "site"
    run(tmp_path, "-m", "pip", "install", "--no-deps", "-q", "--target", str(site), str(wheel))
    plan = Plan()
    x, y = plan.input((2,)), plan.output((2,))
    delegate = plan.delegate("OutOfTreeBackendWithCompilerDemo", 0)
    plan.append(schema.DelegateCall(delegate, [x, y]))
    (tmp_path / "x.pte").write_bytes(build(plan, payloads=[PAYLOAD]))
    out = run(tmp_path, "-c", CODE, PYTHONPATH=os.pathsep.join([str(site), root]))
    assert [round(value, 5) for value in eval(out)] == [0.83333, 0.83333]
