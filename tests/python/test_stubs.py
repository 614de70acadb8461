"""The stubs say what the extension module has: mypy.stubtest, and no Any."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import executorch_c
import pytest

PACKAGE = Path(executorch_c.__file__).parent
CONFIG = Path(__file__).parents[2] / "pyproject.toml"


def test_stubtest() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "executorch_c._core"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_strictly_typed() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", str(CONFIG), "-p", "executorch_c"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["__init__.py", "_core.pyi", "_types.py", "_html.py"])
def test_no_any(name: str) -> None:
    assert not re.search(r"\bAny\b", (PACKAGE / name).read_text())
    assert (PACKAGE / "py.typed").exists()
