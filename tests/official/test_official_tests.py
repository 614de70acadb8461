"""Some of the official flow's own tests, on this runtime. All of them: python -m tests.official"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

FILES = ["test_add.py"]


def test_the_official_tests_pass(tmp_path: Path) -> None:
    backends = pytest.importorskip("executorch_c").Runtime.get().backend_registry
    if not backends.is_available("XnnpackBackend"):
        pytest.skip("built without XNNPACK on request (EXECUTORCH_C_XNNPACK=0)")
    main = Path(__file__).with_name("__main__.py")
    spec = importlib.util.spec_from_file_location("official", main)
    assert spec is not None and spec.loader is not None
    official = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(official)
    done = subprocess.run(
        official.command(FILES), env=official.environment(), cwd=tmp_path, capture_output=True,
        text=True,
    )  # fmt: skip
    found = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-5000:]
    assert found and int(found[1]) >= 10
