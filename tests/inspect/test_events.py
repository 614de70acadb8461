"""Places of trace events and their ids."""

import pytest

from executorch_c.inspect.events import short


@pytest.mark.parametrize(
    ("where", "id_"),
    [
        ("instruction 3", "3"),
        ("chain 1, instruction 3", "1:3"),
        ("delegate 0, node 5", "d0.5"),
        ("delegate 0, node 5, result 1", "d0.5, result 1"),
        ("inside, instruction 3", "inside, instruction 3"),
        ("outputs", "outputs"),
    ],
)
def test_short_places(where: str, id_: str) -> None:
    assert short(where) == id_
