"""Results of check_all without checks."""

from typing import Any

from executorch_c.suite.result import CheckRow, SuiteResult

FIGURES: dict[str, Any] = dict(
    sqnr_db=40.0, power=0.9, size_bytes=10_000, delegated=0.8, call_ms=2.0, seconds=3.0, line=4
)


def row(name: str = "net:xnnpack", verdict: Any = "match", **values: Any) -> CheckRow:
    model, flow = name.split(":")
    about = {"match": "5 cases match"}.get(verdict, "1 of 5 cases differ")
    return CheckRow(name, model, flow, verdict, **{"about": about, **FIGURES, **values})


def result(*rows: CheckRow, **values: Any) -> SuiteResult:
    names = tuple(one.name for one in rows)
    return SuiteResult("ci/checks.toml", rows, **{"names": names, **values})
