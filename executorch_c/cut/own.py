"""A part of a program as its own nodes: an attribute that the flow does not make stays there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c._core import Error, NotSupportedError
from executorch_c._programs import method_of
from executorch_c.cut.graph import Part, to_nhwc
from executorch_c.debug._graphs.names import is_quantizer
from executorch_c.inspect.where import id_of
from executorch_c.rewrite.points import Computed, Dataflow, computed
from executorch_c.rewrite.window import Given, Window, of_program, scales

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile
    from executorch_c.cut.graph import Whole
    from executorch_c.debug.places import Places
    from torch.fx import Node

NEAR = 1e-2
"""Largest relative distance of a program's value from eager's, as inputs of a part."""
MAX_PARTS = 12
"""Maximum number of parts that are looked up."""


class OwnNodes:
    """The nodes of a program, found by the values that they compute in the failing call."""

    def __init__(self, whole: Whole, program: ProgramFile, data: bytes, call: Places) -> None:
        self.whole, self.program, self.data, self.method = whole, program, data, call.method
        self.inputs = [as_array(one) for one in call.inputs]
        method = method_of(program, call.method, "default", False)
        self.values = computed(program.program, method, self.inputs)
        self.flow = Dataflow(program.program, call.method)

    def parts(self, nodes: Sequence[Node], where: str) -> Iterator[tuple[Part, bytes]]:
        """Yield parts that end with a row of the report, and the program's nodes for each: first
        the row's alone, then with what computes their inputs.

        Args:
            nodes: The nodes of the row.
            where: Its place, "delegate 0, node 5" or "instruction 3".
        """
        part: Part | None = Part(self.whole, self._with_scales(nodes))
        for _ in range(MAX_PARTS):
            if part is None or len(part.outputs) != 1:
                return
            output = self._output(part.outputs[0], where)
            if output is None:
                return
            given = [self._input(node, output) for node in part.inputs]
            known = [one for one in given if one is not None]
            if len(known) == len(given):
                program = self._program(known, output)
                if program is not None:
                    yield replace(part, in_nhwc=self._in_nhwc(part, known, output)), program
            part = self._larger(part, given)

    def _with_scales(self, nodes: Sequence[Node]) -> frozenset[Node]:
        """Return nodes with what makes their operands of integers, but not those integers."""
        before = {one for node in nodes for one in node.all_input_nodes if is_quantizer(one)}
        scales = {one for one in before if "dequantize" in str(one.target)}
        return frozenset({*nodes, *scales} & self.whole.varying)

    def _larger(self, part: Part, given: Sequence[Given | None]) -> Part | None:
        """Return a part with what computes the inputs that the program does not have, or all of
        them; None if there is nothing more."""
        unknown = [node for node, one in zip(part.inputs, given) if one is None] or part.inputs
        nodes = part.nodes | self._with_scales([n for n in unknown if n.op == "call_function"])
        return Part(self.whole, nodes) if nodes != part.nodes else None

    # ---- values ----------------------------------------------------------------------------

    def _eager(self, node: Node) -> Any:
        """Return eager's value of a node; of integers that stand for others, those."""
        reader = next((one for one in node.users if "dequantize" in str(one.target)), None)
        value = self.whole.values[reader if is_quantizer(node) and reader is not None else node]
        return as_array(value)

    def _output(self, node: Node, where: str) -> Computed | None:
        """Return the program's value for the result of a part: that of its row, or the same
        elements in another order, which the backend computes from it, if there are any."""
        begin = id_of(where)
        value = self._eager(node)
        shape = value.shape
        first = next((one for one in self.values if one.id == begin), None)
        if first is None or first.data.shape == shape:
            return first
        elements = np.sort(first.data, axis=None)
        later = (one for one in self.values if begin in self.flow.before(one.id))
        one = next((one for one in later if one.data.shape == shape), None)
        if one is not None and np.array_equal(np.sort(one.data, axis=None), elements):
            return one
        return first if first.data.shape == _nhwc(value).shape else None

    def _in_nhwc(self, part: Part, given: Sequence[Given], output: Computed) -> frozenset[Node]:
        """Return the inputs and outputs that the program has in NHWC order: those whose values are
        nearer to eager's in that order."""
        ours = [self.inputs[one] if isinstance(one, int) else one.data for one in (*given, output)]
        result = set()
        for node, one in zip((*part.inputs, *part.outputs), ours):
            value = self._eager(node)
            orders = [v for v in (value, _nhwc(value)) if v.shape == one.shape]
            if min(orders, key=lambda order: _distance(one, order)) is not value:
                result.add(node)
        return frozenset(result)

    def _input(self, node: Node, output: Computed) -> Given | None:
        """Return the program's value for an input of a part; None if it has none."""
        wanted = self._eager(node)
        if node.op == "placeholder":
            numbers = (i for i, one in enumerate(self.inputs) if _is_near(one, wanted, 0.0))
            return next(numbers, None)
        before = self.flow.before(output.id) - {output.id}
        found = [one for one in self.values if one.id in before]
        orders = wanted, _nhwc(wanted)
        near = (
            one
            for one in reversed(found)
            if any(_is_near(one.data, order, NEAR) for order in orders)
        )
        dtype = as_array(self.whole.values[node]).dtype
        return next((one for one in near if self._stored(one).dtype == dtype), None)

    # ---- programs --------------------------------------------------------------------------

    def _program(self, given: Sequence[Given], output: Computed) -> bytes | None:
        """Return the program of the nodes between values; None if it does not compute in the
        failing call what they did."""
        ends = {one.id for one in given if isinstance(one, Computed)}
        nodes = self.flow.before(output.id, ends) - ends
        try:
            window = Window(nodes, given, output)
            program = of_program(self.program.program, self.data, window, self.method)
            inputs = [self._stored(one) for one in given]
            method = method_of(program, self.method, "default", False)
            with method.tracing(values=True):  # no instructions joined to loops, as in the call
                (result,) = method.execute(inputs)
        except (NotSupportedError, Error, ValueError):
            return None
        expected = self._stored(output)
        return program if _is_near(as_array(result), expected, 0.0) else None

    def _stored(self, given: Given) -> Any:
        """Return a value of the failing call as the program stores it."""
        if isinstance(given, int):
            return self.inputs[given]
        if not given.point.is_inside:
            return given.data
        scale, zero = scales(self.program.program, self.data, given, self.method)
        if (scale, zero) == (1.0, 0):
            return given.data
        return (np.rint(given.data / np.float32(scale)) + zero).astype(np.int8)


def _nhwc(value: Any) -> Any:
    """Return a value of NCHW in NHWC order; of fewer than three dimensions, the value."""
    return value.transpose(to_nhwc(value.ndim)) if value.ndim > 2 else value


def _is_near(ours: Any, theirs: Any, limit: float) -> bool:
    """Return True for arrays of one shape whose distance is at most a share of the second."""
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return False
    if not limit or ours.dtype.kind not in "fV":
        return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"))
    return bool(_distance(ours, theirs) <= limit * np.linalg.norm(theirs.astype(np.float64)))


def _distance(ours: Any, theirs: Any) -> float:
    return float(np.linalg.norm(ours.astype(np.float64) - theirs.astype(np.float64)))
