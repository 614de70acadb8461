"""Faults planted in the flows of `planted.SCHEMES`: `check_model` says that a program differs,
`explain` names the layer; right programs match, and nothing in them is accused.

`python -m tests.backends.test_planted SCHEME...` prints the rates.
"""

import logging
import re
import sys

import pytest

from executorch_c.check import flows
from tests import ROOT
from tests.backends import planted

ROWS = [(scheme, *row) for scheme in planted.SCHEMES for row in planted.rows(scheme)]
CHEAP = {("native-package", "decoder"), ("mlx", "mlp")}
"""Rows that always run."""


@pytest.mark.parametrize(
    ("scheme", "model_name", "number"),
    [
        pytest.param(*row, marks=() if (row[0].name, row[1]) in CHEAP else pytest.mark.heavy)
        for row in ROWS
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_fault_is_found_and_named(scheme: planted.Scheme, model_name: str, number: int) -> None:
    if missing := planted.missing(scheme):
        pytest.skip(f"needs {', '.join(missing)}")
    row, result = flows.FLOWS[scheme.flow], planted.outcome(scheme, model_name, number)
    assert result.is_right, result.text
    assert not row.leaves_out or row.leaves_out in result.notes


def test_the_documentation_has_the_measured_schemes() -> None:
    text = (ROOT / "executorch_c/docs/tolerances.md").read_text()
    table = text.partition("<!-- planted -->")[2].partition("<!-- /planted -->")[0]
    names = {scheme.name for scheme, *_ in ROWS}
    assert {*re.findall(r"^\| `([\w-]+)` \|", table, re.M)} == names


def main(names: list[str]) -> None:
    logging.disable(logging.WARNING)
    for scheme in planted.SCHEMES:
        if names and scheme.name not in names or planted.missing(scheme):
            continue
        counts = [0, 0, 0]
        for model_name, number in planted.rows(scheme):
            result = planted.outcome(scheme, model_name, number)
            counts[0] += result.right == "match" and not result.accused
            counts[1] += result.wrong == "differ"
            counts[2] += set(result.named) == {result.layer}
            if not result.is_right:
                print(f"{scheme.name}, {model_name}, {result.fault}: {result}", file=sys.stderr)
        shares = " | ".join(f"{count} of {len(scheme.models)}" for count in counts)
        print(f"| `{scheme.name}` | {shares} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
