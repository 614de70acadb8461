"""Some of the official flow's own tests, on this runtime. All of them: python -m tests.official"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest


def load() -> Any:
    main = Path(__file__).with_name("__main__.py")
    spec = importlib.util.spec_from_file_location("official", main)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


official = load()
XNNPACK = {"test_add.py": 11}
"""Files of operators, and how many of their tests pass."""


@pytest.mark.parametrize("name, passed", [*XNNPACK.items(), *official.RUNTIME.items()])
def test_the_official_tests_pass(tmp_path: Path, name: str, passed: int) -> None:
    """The count is exact: a test that is not found, or that skips itself, has not passed."""
    backends = pytest.importorskip("executorch_c").Runtime.get().backend_registry
    needs = name in XNNPACK or "xnnpack" in name
    if needs and not backends.is_available("XnnpackBackend"):
        pytest.skip("built without XNNPACK on request (EXECUTORCH_C_XNNPACK=0)")
    done = subprocess.run(
        official.command([name]), env=official.environment(), cwd=tmp_path, capture_output=True,
        text=True,
    )  # fmt: skip
    found = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-5000:]
    assert found and int(found[1]) == passed, done.stdout[-1000:]
