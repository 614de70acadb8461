"""The stubs say what the extension module has: mypy.stubtest, and no Any."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import executorch_c
import pytest

PACKAGE = Path(executorch_c.__file__).parent
INSTALLED = PACKAGE.parent.name == "site-packages"
CONFIG = Path(__file__).parents[2] / "pyproject.toml"


def check(folder: Path, *command: str) -> None:
    """Runs a module of mypy away from the sources, on the package that the tests import."""
    pytest.importorskip("mypy")
    env = os.environ if INSTALLED else {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, env=env,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubtest(tmp_path: Path) -> None:
    check(tmp_path, "mypy.stubtest", "executorch_c._core")


def test_the_package_is_strictly_typed(tmp_path: Path) -> None:
    check(tmp_path, "mypy", "--config-file", str(CONFIG), "-p", "executorch_c")


TYPED = ["__init__.py", "_core.pyi", "_types.py", "_render/html.py", "trace.py"]


@pytest.mark.parametrize("name", TYPED)
def test_no_any(name: str) -> None:
    assert not re.search(r"\bAny\b", (PACKAGE / name).read_text())
    assert (PACKAGE / "py.typed").exists()
