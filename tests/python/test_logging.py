"""Records for Python's logging; no logging without it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

import executorch_c
from executorch_c import Runtime, _backends
from executorch_c._entry_points import EntryPoint
from tests import process
from tests.exports import export
from tests.python.digits import DIGITS
from tests.python.small_programs import add_pte


@pytest.fixture(autouse=True)
def levels(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, "executorch_c"):
        yield


def test_programs_and_methods(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes(add_pte())
    method = Runtime.get().load_program(path).load_method("forward", kernels="reference")
    program, loaded = caplog.records
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert {record.name for record in caplog.records} == {"executorch_c"}
    text = program.getMessage()
    assert f"loaded {path}: {path.stat().st_size:,} bytes, methods forward, in " in text
    text = loaded.getMessage()
    assert "loaded method 'forward': reference kernels, " in text and "delegates: none" in text
    assert f"planned {method.memory()['planned']:,}" in text
    caplog.clear()
    method.execute([np.ones((2, 2), np.float32)] * 2)
    assert not caplog.records


def test_a_program_in_memory_and_methods_that_are_shared(caplog: pytest.LogCaptureFixture) -> None:
    program = Runtime.get().load_program(add_pte())
    assert program.load_method("forward") is program.load_method("forward")
    first, second = (record.getMessage() for record in caplog.records)
    assert "a program in bytes" in first and "default kernels" in second


def test_delegates_have_loggers_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    if not Runtime.get().backend_registry.is_available("XnnpackBackend"):
        pytest.skip("XnnpackBackend was left out of this install")
    pte = export(torch.nn.Linear(4, 4), torch.ones(2, 4), partitioner=XnnpackPartitioner())
    program = Runtime.get().load_program(pte)
    caplog.clear()
    method = program.load_method("forward")
    reports = [one for one in method.backend_report() if one["figures"]]
    assert reports
    records = [r for r in caplog.records if r.name == "executorch_c.backend.XnnpackBackend"]
    assert len(records) == len(reports)
    name, value = next(iter(reports[0]["figures"].items()))
    assert f"delegate 0 of method 'forward': {name} {value:,}" in records[0].getMessage()
    logging.getLogger("executorch_c.backend").setLevel(logging.WARNING)
    try:
        caplog.clear()
        program.load_method("forward", seed=1)
        assert {record.name for record in caplog.records} == {"executorch_c"}
    finally:
        logging.getLogger("executorch_c.backend").setLevel(logging.NOTSET)


def test_plug_ins(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    good = EntryPoint("good", "executorch_c._backends:GROUPS")
    others = EntryPoint("bad", "no_such_module"), EntryPoint("left", "executorch_c._no_such")
    entries = {"executorch_c.backends": [good, *others], "executorch_c.operators": []}
    monkeypatch.setattr(_backends, "entry_points", lambda *groups: entries)
    monkeypatch.setattr(_backends, "_looked", [])
    monkeypatch.setitem(_backends.GROUPS, "backends", lambda capsule: None)
    with pytest.warns(RuntimeWarning, match="no_such_module"):
        _backends.discover()
    rows = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert rows[0][0] == "ERROR" and "backend 'bad' (no_such_module) cannot be used" in rows[0][1]
    good = "plug-in of backends 'good' (executorch_c._backends:GROUPS) is registered"
    assert rows[1:] == [("DEBUG", good), ("DEBUG", "'left' was excluded from the build")]


def test_operators_that_are_overridden(caplog: pytest.LogCaptureFixture) -> None:
    schema = "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    executorch_c.register_operator(schema, lambda self: self, override=True)
    try:
        [record] = caplog.records
        assert record.levelno == logging.INFO and "aten::relu.out is now " in record.getMessage()
    finally:
        executorch_c.unregister_operator("aten::relu.out")


def test_a_filter_that_raises() -> None:
    """The exception propagates, as in any code that logs, and everything stays usable."""

    def refuse(record: Any) -> bool:
        raise ZeroDivisionError

    logger = logging.getLogger("executorch_c")
    logger.addFilter(refuse)
    try:
        with pytest.raises(ZeroDivisionError):
            Runtime.get().load_program(add_pte())
    finally:
        logger.removeFilter(refuse)
    assert Runtime.get().load_program(add_pte()).method_names == {"forward"}


def run(code: str) -> str:
    done = process.python("-c", code, cwd=DIGITS.parent, timeout=60)
    return done.stdout + done.stderr


CALL = f"executorch_c.Runtime.get().load_program({str(DIGITS)!r}).load_method('forward')"


def test_nothing_is_logged_or_printed_unless_it_is_asked_for() -> None:
    code = f"import sys, executorch_c; {CALL}; print('logging' in sys.modules)"
    assert run(code) == "False\n"
    code = f"import logging, executorch_c; from executorch_c import _log; {CALL}; _log.error('x')"
    assert run(code) == ""
    assert "DEBUG:executorch_c:loaded method 'forward'" in run(
        f"import logging; logging.basicConfig(level='DEBUG'); import executorch_c; {CALL}"
    )
