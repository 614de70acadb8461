"""Places, their ids and words."""

import pytest

from executorch_c.inspect.where import Where, id_of


@pytest.mark.parametrize(
    ("words", "id_"),
    [
        ("instruction 3", "i3"),
        ("chain 1, instruction 3", "c1.i3"),
        ("delegate 0, node 5", "d0.5"),
        ("delegate 0, node 5, result 1", "d0.5:1"),
        ("inside, inside, instruction 3", "in.in.i3"),
    ],
)
def test_ids_and_words_are_read(words: str, id_: str) -> None:
    for text in (words, id_):
        place = Where.parse(text)
        assert place is not None and (str(place), place.id) == (words, id_)


@pytest.mark.parametrize("text", ["outputs", "3", "d0", "node 5", "instruction", ""])
def test_other_texts_are_no_places(text: str) -> None:
    assert Where.parse(text) is None and id_of(text) == text


def test_places_of_loops() -> None:
    place = Where.parse("d0.3:1@2")
    assert place == Where(None, 0, 3, result=1, times=2) and place.id == "d0.3:1@2"


def test_pairs_of_places_of_two_programs() -> None:
    assert id_of("delegate 0, node 0 / delegate 0, node 12") == "d0.0 / d0.12"
    assert id_of("delegate 1, node 0, result 1 / instruction 2") == "d1.0:1 / i2"
    assert id_of("aten::mul.out / instruction 2") == "aten::mul.out / instruction 2"
