"""Calls that operators refuse, with a message that names the argument, in fast and plain loops."""

import pytest

from tests.kernels import refused_arithmetic, refused_moves
from tests.op_harness import assert_rejected


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize(
    ("name", "args", "words"), refused_moves.REFUSED + refused_arithmetic.REFUSED
)
def test_refused(name: str, args: list, words: str | list[str], reference: bool) -> None:
    full = name if "::" in name else f"aten::{name}"
    assert_rejected(
        full, args, *([words] if isinstance(words, str) else words), reference=reference
    )
