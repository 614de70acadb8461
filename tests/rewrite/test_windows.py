"""Windows of programs: a node between its inputs and its output computes what it did in the trace,
bit by bit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from executorch_c import Program
from executorch_c._core import Error, NotSupportedError
from executorch_c.rewrite.points import Computed, Dataflow
from executorch_c.rewrite.window import Given, Window, of_program, scales
from tests.rewrite.test_outputs import PROGRAMS, inputs_of, run, traced

LEAST = {
    "xnnpack_8da4w": 0.0,  # scales that XNNPACK computes at run time
    "xnnpack_dynamic": 0.3,
    "coreml_programs-mlp_dyn": 0.0,  # an output's size is known by an input's alone
    "coreml_programs-mlp_int8": 0.4,  # no outputs of integers
    "mlx_programs-decoder": 0.6,  # numbers that the method computes, and state
    "mlx_programs-packed_4w": 0.6,  # weights that MLX computes when it loads the program
    "halves": 0.7,
    "vulkan_programs-cnn_fp16": 0.8,
}
"""Share of the nodes that can be a program, by program; others: 0.85."""


def stored(program: Program, data: bytes, value: Computed) -> np.ndarray:
    """Return a value as the program holds it."""
    scale, zero = scales(program, data, value, "forward") if value.point.is_inside else (1.0, 0)
    if (scale, zero) == (1.0, 0):
        return value.data
    return (np.rint(value.data / np.float32(scale)) + zero).astype(np.int8)


def given(
    flow: Dataflow, by_id: dict[str, Computed], one: Computed, count: int
) -> Iterator[list[Given]]:
    """Yield the results that a node reads, alone and with each input of the method."""
    sources: list[Given] = [by_id[key] for key in sorted(flow.sources[one.id]) if key in by_id]
    yield sources
    for number in range(count):
        yield [*sources, number]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_node_computes_what_it_did(path: Path) -> None:
    inputs, data = inputs_of(path), path.read_bytes()
    program, values = traced(path, inputs)
    flow, by_id, right = Dataflow(program, "forward"), {one.id: one for one in values}, 0
    for one in values:
        for choice in given(flow, by_id, one, len(inputs)):
            arrays = [
                inputs[value] if isinstance(value, int) else stored(program, data, value)
                for value in choice
            ]
            try:
                pte = of_program(program, data, Window({one.id}, choice, one), "forward")
                (result,) = run(pte, arrays)
            except (NotSupportedError, Error):
                continue
            expected = stored(program, data, one)
            if result.shape == expected.shape and np.array_equal(result, expected):
                right += 1
                break
    least = LEAST.get(path.stem, LEAST.get(f"{path.parent.name}-{path.stem}", 0.85))
    assert right >= least * len(values), (right, len(values))


def test_nodes_of_two_delegates_are_no_window() -> None:
    path = next(path for path in PROGRAMS if path.stem == "xnnpack_block")
    inputs, data = inputs_of(path), path.read_bytes()
    program, values = traced(path, inputs)
    with pytest.raises(NotSupportedError, match="in several delegates"):
        of_program(program, data, Window({values[-1].id, "d9.1"}, [0], values[-1]), "forward")
