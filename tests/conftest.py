"""Fixtures of all tests: seeds, the official runtime as an oracle."""

import gc
import os
import re
import sys
from collections import Counter
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from tests import exporter_speed
from tests.openers import Opener, Outputs, Runner


ROTATION = "EXECUTORCH_C_TEST_ROTATION"
HEAVY_DAYS = 8
"""Days after which all heavy tests have run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help="also run the models of real size")
    parser.addoption(
        "--rotation",
        type=int,
        metavar="DAY",
        default=os.environ.get(ROTATION),
        help="run the sample of a day: other rows of each sweep, some heavy tests; "
        f"default: ${ROTATION}",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest evaluates -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not any("::" in argument for argument in config.args):  # named tests always run
        mark_full(items, config.getoption("--rotation"))
    if not config.getoption("--large"):
        skip = pytest.mark.skip(reason="a model of real size: needs --large")
        for item in items:
            if item.get_closest_marker("large"):
                item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Import test files without garbage collection, a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        exporter_speed.keep_imports()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Skip test files that import torch or executorch where these are not installed."""
    report = yield
    missing = re.search(r"No module named '(torch|executorch)\b", str(report.longrepr))
    if report.failed and missing:
        reason = f"Skipped: {missing[1]} is not installed"
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, reason)
    return report


def mark_full(items: list[pytest.Item], rotation: int | None) -> None:
    """Mark tests outside the sample of their sweep, and heavy ones, as full: the default is
    `-m "not full"`. With a rotation, the sample is that of a day: after n days, all rows of a sweep
    of n have run, after HEAVY_DAYS all heavy tests."""
    rows = Counter(function_of(item) for item in items if item.get_closest_marker("sweep"))
    seen: Counter[str] = Counter()
    heavy = 0
    for item in items:
        if item.get_closest_marker("heavy"):
            heavy += 1
            if rotation is None or (heavy - rotation) % HEAVY_DAYS:
                item.add_marker("full")
        sweep = item.get_closest_marker("sweep")
        if sweep:
            function = function_of(item)
            every = sweep.args[0]
            if seen[function] % every != (rotation or 0) % min(every, rows[function]):
                item.add_marker("full")
            seen[function] += 1


def function_of(item: pytest.Item) -> str:
    """Return the id of a test without its parameters."""
    return item.nodeid.partition("[")[0]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "large: a model of real size, only with --large")
    config.addinivalue_line("markers", "sweep(n): by default, one row of n is run; all by -m ''")
    config.addinivalue_line("markers", "heavy: run by -m '' only, or by its name")
    config.addinivalue_line("markers", "full: set here for tests that only -m '' runs")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once where CI is set: a run that is stopped shows no summary."""
    if report.failed and os.environ.get("CI") and "PYTEST_XDIST_WORKER" not in os.environ:
        title = f"\nFAILED {report.nodeid} ({report.when})"
        print(title, report.longreprtext[-4000:], sep="\n", flush=True)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Start every test from the same random state; seed torch only if it is imported."""
    np.random.seed(0)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.manual_seed(0)
        torch.set_num_threads(1)
        exporter_speed.apply()


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a seeded generator."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def ours() -> Opener:
    """Open programs with executorch_c."""
    from executorch_c import Runtime

    def open_program(pte: bytes) -> Runner:
        program = Runtime.get().load_program(pte)
        methods: dict[str, Any] = {}

        def run(name: str, inputs: Outputs) -> list[Any]:
            method = methods.get(name) or methods.setdefault(name, program.load_method(name))
            return list(method.execute(list(inputs)))

        return run

    return open_program


@pytest.fixture(scope="session")
def official() -> Opener:
    """Open programs with the official runtime, with arrays as inputs and outputs."""
    pytest.importorskip("executorch.runtime")
    import torch
    from executorch.runtime import Runtime

    def to_tensor(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype.name == "bfloat16":
            return torch.from_numpy(value.view(np.uint16)).view(torch.bfloat16)
        tensor = torch.from_numpy(value)
        # It aborts on an empty tensor with strides other than torch's.
        return tensor if value.size else torch.empty(value.shape, dtype=tensor.dtype)

    def to_array(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.bfloat16:
            import ml_dtypes

            return value.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return value.numpy()

    def open_program(pte: bytes) -> Runner:
        program = Runtime.get().load_program(pte)

        def run(name: str, inputs: Outputs) -> list[Any]:
            method = program.load_method(name)
            return [to_array(out) for out in method.execute([to_tensor(v) for v in inputs])]

        return run

    return open_program
