"""Local errors of values: a node computed again on the program's own values, and its limits.

A local error is a fault where `compare/tolerance.py` says so: within a rounding or two it is not,
nor within the noise that random rounding of the same nodes makes, nor within the error of eager
itself against float64. A value that a delegate holds as integers is compared with the number that
the reference rounds to one: it must be the nearest integer, or the other one next to a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.compare import tolerance
from executorch_c.compare.limits import INT16_FACTOR_ERROR, NOISE_RUNS, TIE_STEPS
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.compare.scale import widened
from executorch_c.compare.tolerance import Tolerance
from executorch_c.debug._graphs.evaluator import call
from executorch_c.debug._graphs.names import (
    FUSED,
    dequantizes,
    grid_of,
    is_quantizer,
    kind_of,
    operator_of,
    quantizes,
    takes_float64,
)
from executorch_c.debug._int16 import by_table, is_int16
from executorch_c.inspect.families import MOVES

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.compare.nodes import NodeTolerances


class NodeValue:
    """NodeValue of a node, and a function to compute it again; None for values of the program."""

    __slots__ = ("causes", "env", "node", "value")

    def __init__(
        self, value: Any, node: Node | None = None, env: dict[Node, NodeValue] | None = None
    ) -> None:
        self.value, self.node, self.env = value, node, env or {}
        self.causes: frozenset[int] = frozenset()
        """Rows whose faults a value of the program carries."""


def run_node(node: Node, env: dict[Node, NodeValue]) -> NodeValue:
    """Return the value of a node, computed from those before it."""
    inputs = {n: env[n] for n in node.all_input_nodes}
    return NodeValue(call(node, lambda n: inputs[n].value), node, inputs)


def _double(value: Any) -> Any:
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(map(_double, value))
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        return value.double()
    return value


def _again(
    value: NodeValue,
    known: dict[int, Any],
    function: Callable[[Any], Any],
    compute: Callable[[Node, Callable[[Node], Any]], Any] = call,
) -> Any:
    """Return a value computed again from the last values of the program before it, changed by a
    function."""
    if id(value) not in known:
        if value.node is None:
            known[id(value)] = function(value.value)
        else:
            node, env = value.node, value.env
            known[id(value)] = compute(node, lambda n: _again(env[n], known, function, compute))
    return known[id(value)]


def _exactly(value: NodeValue, known: dict[int, Any]) -> Any:
    """Return a value in float64, computed from the last values of the program before it."""
    if id(value) not in known:
        node, env = value.node, value.env
        if node is None:
            known[id(value)] = _double(value.value)
        else:

            def argument(before: Node) -> Any:
                plain = env[before].value
                if not takes_float64(node):
                    exact = _exactly(env[before], known)
                    return exact.to(plain.dtype) if hasattr(exact, "to") else exact
                if not is_quantizer(node):
                    return _exactly(env[before], known)
                if before is not node.all_input_nodes[0] or not plain.dtype.is_floating_point:
                    return plain  # quantizers take one dtype only
                return _exactly(env[before], known).to(plain.dtype)

            known[id(value)] = _double(call(node, argument))
    return known[id(value)]


def local_error(
    actual: Array, rerun: NodeValue, output: int | None, limits: NodeTolerances | None
) -> ErrorMetrics:
    """Return the local error of a value.

    Args:
        rerun: The value that the node has on the program's values.
        output: Number of the result of a node with several.
        limits: None to measure without a verdict.
    """
    expected = picked(rerun.value, output)
    if limits is None:
        return measure_size(actual, expected)
    if not limits.cover_all and output is None:
        error = quantized_error(actual, expected, rerun)
        if error is not None and error.mismatched:
            error = _requantized(actual, expected, rerun) or error
        if error is not None:
            return error
    return limits.error(actual, expected, rules_of(actual, expected, rerun, output))


def picked(result: Any, output: int | None) -> Array:
    """Return a result, or one of several, as an array."""
    return as_array(result if output is None else result[output])


def random_roundings(
    value: NodeValue, output: int | None, epsilon: float, seeds: Iterable[int] = range(NOISE_RUNS)
) -> list[Array]:
    """Return results of a value's nodes with random rounding, one for each seed; [] if they cannot
    run with it."""
    from executorch_c.noise.rounding import RandomRounding, samples

    def run(mode: RandomRounding) -> Array:
        with mode:
            return picked(_again(value, {}, mode.rounded), output)

    return samples(run, seeds, epsilon) or []


def _exact(value: NodeValue, output: int | None) -> Array | None:
    """Return the value in float64; None if an operator does not accept float64."""
    try:
        return picked(_exactly(value, {}), output)
    except Exception:
        return None  # operators that take one dtype only raise many kinds of exceptions


def rules_of(
    actual: Array, expected: Array, rerun: NodeValue, output: int | None
) -> Iterator[Tolerance]:
    """Yield the tolerances of a value, from the cheapest to the most generous."""
    yield tolerance.rounding(actual, expected)
    epsilon, runs = tolerance.epsilon_of(actual.dtype, expected.dtype), list[Array]()

    def first(count: int) -> list[Array]:
        runs.extend(random_roundings(rerun, output, epsilon, range(len(runs), count)))
        return runs

    if (measured := tolerance.of_runs(actual, expected, first)) is not None:
        yield measured
    exact = _exact(rerun, output)
    if exact is not None:
        yield tolerance.measured(actual, expected, [*runs, *[exact] * max(len(runs), 1)])


def value_before_rounding(rerun: NodeValue) -> NodeValue | None:
    """Return the value before quantisation, of a (de)quantising node."""
    value: NodeValue | None = rerun
    if value is not None and value.node is not None and dequantizes(value.node):
        value = value.env.get(value.node.all_input_nodes[0])
    if value is None or value.node is None or not quantizes(value.node):
        return None
    return value.env.get(value.node.all_input_nodes[0])


def bias_rounding(before: NodeValue) -> Array | float:
    """Return the largest error of a product before its result is quantised, by its bias: the graph
    has it as float, a delegate as integers, in steps of the input's scale times the weight's."""
    from torch.fx import Node

    while before.node is not None and operator_of(before.node) in FUSED:
        before = before.env[before.node.all_input_nodes[0]]
    node = before.node
    if node is None or kind_of(node) not in ("convolution", "linear"):
        return 0.0
    x, weight, bias = (*node.args[:3], None)[:3]
    if operator_of(node) == "addmm":
        x, weight, bias = node.args[1], node.args[2], node.args[0]
    if not isinstance(x, Node) or not isinstance(weight, Node) or bias is None:
        return 0.0
    grid, value = grid_of(x), before.env[weight]
    while value.node is not None and operator_of(value.node) in MOVES:
        value = value.env[value.node.all_input_nodes[0]]
    if grid is None or value.node is None or not dequantizes(value.node):
        return 0.0
    scale = value.node.args[1]
    steps = np.asarray(as_array(value.env[scale].value) if isinstance(scale, Node) else scale)
    result = as_array(before.value)
    axis = 1 if kind_of(node) == "convolution" else result.ndim - 1
    if steps.size not in (1, result.shape[axis]):
        return 0.0
    shape = [-1 if at == axis and steps.size > 1 else 1 for at in range(result.ndim)]
    return grid[0] / 2 * steps.astype(np.float64).reshape(shape)


def _requantized(actual: Array, expected: Array, rerun: NodeValue) -> ErrorMetrics | None:
    """Return the error of integers beyond what rounding of the reference explains."""
    before = value_before_rounding(rerun)
    if before is None or before.node is None:
        return None
    coarse = is_int16(rerun.node)
    runs = random_roundings(before, None, INT16_FACTOR_ERROR if coarse else 0.0)
    if not runs:
        return None
    if coarse:
        runs += [as_array(_again(before, {}, lambda value: value, by_table))] * len(runs)
    exact = as_array(before.value)
    noise = tolerance.measured(exact, exact, runs).limit + bias_rounding(before)
    return quantized_error(actual, expected, rerun, noise)


def _grid(rerun: NodeValue) -> tuple[Array | float, Array | float, int, int] | None:
    """Return scale, zero point, least and largest integer of a (de)quantising node: numbers, or
    arrays along its axis; None for any other node."""
    node = rerun.node
    if node is None or not (operator_of(node) or "").endswith("quantize_per_channel"):
        return None if node is None else grid_of(node)
    scale, zero, axis, low, high = cast("tuple[Node, Node, int, int, int]", node.args[1:6])
    shape = [-1 if at == axis else 1 for at in range(as_array(rerun.value).ndim)]
    scales, zeros = (
        as_array(rerun.env[one].value).astype(np.float64).reshape(shape) for one in (scale, zero)
    )
    return (scales, zeros, low, high) if (scales > 0).all() else None


def quantized_error(
    actual: Array, expected: Array, rerun: NodeValue, noise: Array | float = 0.0
) -> ErrorMetrics | None:
    """Return the error of integers (or the numbers that they stand for) against the number before
    rounding; None for a node that does not round to a grid of the graph.

    Args:
        noise: Error that the number before rounding may have.
    """
    node = rerun.node
    grid, before = _grid(rerun), value_before_rounding(rerun)
    if grid is None or before is None or node is None:
        return None
    scale, zero, low, high = grid
    ours = widened(actual)
    ours = ours / scale + zero if dequantizes(node) else ours
    plain = widened(as_array(before.value))
    exact = np.clip(plain / scale + zero, low, high).reshape(ours.shape)
    room = 0.5 + TIE_STEPS + np.broadcast_to(noise, plain.shape).reshape(ours.shape) / scale
    with np.errstate(invalid="ignore"):
        off = np.abs(np.rint(ours) - exact)
    outside = int(np.count_nonzero(~(off <= room)))
    return replace(measure_size(actual, expected, mismatched=outside), is_integer=True)
