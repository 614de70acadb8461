"""OPERATORS.md matches the table of operators."""

from tests.kernels import operators_doc


def test_is_fresh() -> None:
    wanted = operators_doc.text()
    assert operators_doc.PATH.read_text() == wanted, "python -m tests.kernels.operators_doc"
