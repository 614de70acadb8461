"""Faults planted in the flows of `planted.SCHEMES`: `check_model` says that a program differs,
`explain` names the layer; right programs match, and nothing in them is accused.

`python -m tests.backends.test_planted SCHEME...` prints the rates.
"""

import logging
import sys

import pytest

from executorch_c.check import flows
from tests.backends import planted

MEASURED = set(
    "native-package mlx mlx-fp16 mlx-bf16 mlx-int4 mlx-int8 mlx-nvfp4 mlx-mxfp8 coreai qnn "
    "qnn-a16w8 samsung cuda portable-int8-weight-only xnnpack-8da4w xnnpack-qb4w "
    "mlx-kv-cache".split()
)
"""Schemes of which all rows have run; a scheme is added with its line in docs/tolerances.md."""
ROWS = [
    (scheme, *row)
    for scheme in planted.SCHEMES
    if scheme.name in MEASURED
    for row in planted.rows(scheme)
]
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
    row = flows.FLOWS[scheme.flow]
    if not row.is_installed:
        pytest.skip(f"needs {', '.join(row.packages)}")
    result = planted.outcome(scheme, model_name, number)
    assert result.is_right, result.text
    assert not row.leaves_out or row.leaves_out in result.notes


def main(names: list[str]) -> None:
    logging.disable(logging.WARNING)
    for scheme in planted.SCHEMES:
        if names and scheme.name not in names or not flows.FLOWS[scheme.flow].is_installed:
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
