"""Damaged programs: where one still loads and runs, its values become outputs, or are refused."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flatbuffers")

import executorch_c
from executorch_c import Error, NotSupportedError
from executorch_c.rewrite.method import with_outputs
from executorch_c.rewrite.points import Dataflow, computed
from executorch_c.rewrite.program import ProgramTables
from executorch_c.rewrite.window import Window, of_program
from tests.fuzz.readers import check_cases
from tests.rewrite.damage import damaged
from tests.rewrite.test_outputs import PROGRAMS, assert_same, inputs_of, run, traced
from tests.rewrite.test_windows import given


def use(draw: random.Random, data: bytes, inputs: list[np.ndarray]) -> bool:
    """Make values outputs, all and one, and a window of one; return False if all is refused."""
    try:
        program = executorch_c.load(data)
        method = program.load_method("forward", delegate_at_load=False)
        values = computed(program, method, inputs)
    except Error:
        return False
    if not values:
        return False
    done, one = 0, draw.choice(values)
    for chosen, is_cut in ((values, False), ([one], True)):
        try:
            points = [value.point for value in chosen]
            written = with_outputs(program, data, points, cut=is_cut)
            results = run(written.data, inputs)
        except Error as error:
            assert str(error)
            continue
        assert_same(written, chosen, results)
        done += 1
    flow, by_id = Dataflow(program, "forward"), {value.id: value for value in values}
    choice = draw.choice([*given(flow, by_id, one, len(inputs))])
    try:
        of_program(program, data, Window({one.id}, choice, one), "forward")
    except Error as error:
        assert str(error)
    return done > 0


def cases(folder: Path) -> Callable[[int], bool]:
    """Return a function that rewrites the damaged program of a number, and returns if it is not
    refused."""
    files = [(path.read_bytes(), inputs_of(path)) for path in PROGRAMS]

    def case(number: int) -> bool:
        draw = random.Random(number)
        data, inputs = draw.choice(files)
        try:
            data = damaged(draw, data)
        except (TypeError, ValueError, LookupError, AttributeError, struct.error):
            return False  # the writer of FlatBuffers has no such values
        return use(draw, data, inputs)

    return case


def test_damaged_programs(tmp_path: Path) -> None:
    check_cases(cases(tmp_path), 60)


@pytest.mark.parametrize(("old", "new"), [("metadata.json", "metaxxxx.json"), ('"size"', '"sizf"')])
def test_the_index_of_a_core_ml_payload(old: str, new: str) -> None:
    """It is JSON, written backwards."""
    path = next(path for path in PROGRAMS if path.stem == "mlp_dyn" and "coreml" in str(path))
    program, values = traced(path, inputs_of(path))
    tables = ProgramTables(path.read_bytes(), "forward")
    payload = tables.payload(0)
    tables.set_payload(0, payload.replace(old[::-1].encode(), new[::-1].encode()))
    assert tables.payload(0) != payload
    with pytest.raises(NotSupportedError, match="the payload of CoreMLBackend is damaged, or of "):
        with_outputs(program, tables.write(), [values[0].point], cut=True)


def test_a_program_without_a_list_of_delegates() -> None:
    path = next(path for path in PROGRAMS if path.stem == "cnn" and path.parent.name == "1.5.1")
    inputs = inputs_of(path)
    tables = ProgramTables(path.read_bytes(), "forward")
    del tables.plan["delegates"]
    data = tables.write()
    program = executorch_c.load(data)
    method = program.load_method("forward", delegate_at_load=False)
    values = computed(program, method, inputs)
    cut = with_outputs(program, data, [values[0].point], cut=True)
    assert_same(cut, [values[0]], run(cut.data, inputs))
