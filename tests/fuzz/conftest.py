"""The fuzzers, built once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import build, with_xnnpack


@pytest.fixture(scope="session")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fuzz_pte, with XnnpackBackend where it is installed."""
    folder = tmp_path_factory.mktemp("build")
    return build(folder, **with_xnnpack(folder))


@pytest.fixture(scope="session")
def replay(fuzzer: Path) -> Path:
    """fuzz_replay, which is made with it."""
    return fuzzer.with_name("fuzz_replay")
