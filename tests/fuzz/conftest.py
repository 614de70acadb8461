"""Fixtures that build the fuzzers once for all tests of this folder."""

from pathlib import Path

import pytest

from tests.fuzz.driver import kept_build


@pytest.fixture(scope="session")
def fuzzer() -> Path:
    """fuzz_pte, with XnnpackBackend where it is installed."""
    return kept_build() / "fuzz_pte"


@pytest.fixture(scope="session")
def replay() -> Path:
    """fuzz_replay, which is made with it."""
    return kept_build() / "fuzz_replay"
