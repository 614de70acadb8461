"""One sample of every function of torch's operator database: exported, run and compared.

The report of many samples in all dtypes is `python -m tests.op_db`.
"""

from __future__ import annotations

import re

import opdb_export
import opdb_judge
import opdb_run
import opdb_samples
import pytest
import torch
import zoo

NAMES = [name for name, entry in opdb_samples.entries().items() if entry.dtypes()]


@pytest.mark.parametrize("name", NAMES)
def test_function(name: str) -> None:
    entry = opdb_samples.entries()[name]
    found = opdb_export.records(zoo.cache_dir() / "op_db", entry, entry.dtypes()[0], 1)
    for record in found:
        if record.pte is None:
            assert record.refused or record.unexported
            continue
        wrong = [opdb_run.verdict(record, kernels, name) for kernels in ("ours", "reference")]
        assert wrong == [None, None]


@pytest.mark.parametrize(("name", "dtype", "says"), [
    ("index_add", "int32", "eager refuses the program: .*dtypes match, got Int .* and Long"),
    ("masked.std", "float16", "by eager, the program gives: torch.float32, eager torch.float16"),
    ("matrix_exp", "bfloat16", "eager's results are not finite"),
    ("nn.functional.interpolate.bicubic", "uint8", "by eager, the program gives: 432 of"),
])  # fmt: skip
def test_what_no_runtime_could_mend(name: str, dtype: str, says: str) -> None:
    """The report's causes: what fails here, fails by eager's own operators, or only in eager."""
    folder = zoo.cache_dir() / "op_db"
    record = opdb_export.records(folder, opdb_samples.entries()[name], dtype, 1)[0]
    wrong = opdb_run.verdict(record, "ours", name)
    cause = opdb_run.cause(name, dtype, record)
    assert wrong and re.match(says, cause), (wrong, cause)
    if "432" in says:  # the very same elements
        assert cause.endswith(wrong.removeprefix("output 0: "))


def test_judge_takes_what_is_as_exact_as_eager() -> None:
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    wanted = torch.tensor([1.0, 2.01])
    assert opdb_judge.difference(torch.tensor([1.0, 2.001]), wanted) is not None
    assert opdb_judge.difference(torch.tensor([1.0, 2.001]), wanted, exact) is None
    assert opdb_judge.difference(torch.tensor([1.0, 1.97]), wanted, exact) is not None
    assert opdb_judge.difference(torch.tensor([torch.nan, 2.0]), wanted, exact) is not None


def test_judge_looks_at_dtype_shape_and_integers() -> None:
    whole = torch.tensor([1, 2])
    assert opdb_judge.difference(whole, whole) is None
    assert opdb_judge.difference(whole.int(), whole) is not None
    assert opdb_judge.difference(whole[:1], whole) is not None
    assert opdb_judge.difference(torch.tensor([1, 3]), whole) is not None
    assert opdb_judge.difference(torch.tensor([1, 3]), whole, filled=False) is None


def test_spread_takes_even_distances() -> None:
    assert sorted(opdb_samples.spread(7)) == list(range(7))
    assert list(opdb_samples.spread(8))[:4] == [0, 4, 2, 6]


def test_judge_takes_other_positions_of_equal_values() -> None:
    values = torch.tensor([[3.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    wanted = torch.tensor([[1, 0, 2], [0, 1, 2]])
    assert opdb_judge.point_alike(torch.tensor([[1, 2, 0], [1, 0, 2]]), wanted, values)
    assert not opdb_judge.point_alike(torch.tensor([[0, 1, 2], [1, 0, 2]]), wanted, values)
    assert not opdb_judge.point_alike(torch.tensor([[1, 0, 0], [0, 1, 2]]), wanted, values)
    assert opdb_judge.point_alike(torch.tensor([2, 2]), torch.tensor([0, 2]), values)
