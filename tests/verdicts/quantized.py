"""Verdicts on quantised programs: right ones, and programs lowered from a damaged quantised graph.

The reference is the undamaged quantised graph; `check_model`'s own judge decides. The limit of the
signal-to-quantisation-noise ratio does not apply, because correct programs may exceed it.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from executorch_c import Error, Runtime
from executorch_c.check import flows
from executorch_c.check.cases import CallSequence
from executorch_c.check.engines import Official
from executorch_c.check.reference import Eager
from executorch_c.check.run import Check, CheckOptions
from executorch_c.compare.metrics import rms
from executorch_c.compare.scale import unmasked
from executorch_c.debug._graphs.reference import module_of
from executorch_c.noise.rounding import RandomRounding
from tests.models import nets
from tests.verdicts import faults, proof

FLOWS = tuple(name for name, flow in flows.FLOWS.items() if flow.quantizer is not None)
OPTIONS = CheckOptions(
    rtol=None,
    atol=None,
    min_sqnr_db=None,
    equal_nan=True,
    check_dtype=True,
    kernels="default",
    delegate_at_load=False,
)
EPSILON = float(np.finfo(np.float32).eps)
CALIBRATION = 900
"""First seed of the calibration inputs, which no call of the proof uses."""


def parts(errors: Any, expected: Any) -> tuple[float, float]:
    """Return the RMS of errors in the elements that are not mask values, and in those that are,
    whose rounding is larger than any fault elsewhere."""
    body = np.broadcast_to(unmasked(expected), errors.shape)
    return rms(errors[body]), rms(errors[~body])


def error_size(actual: Any, expected: Any, noise: Sequence[float]) -> float:
    """Return the error of an output in units of rounding noise: that of its `parts`."""
    error = np.asarray(actual, np.float64) - expected
    if not np.isfinite(error).all():
        return np.inf
    units = zip(parts(error, expected), noise, strict=True)
    return max(size / unit if unit else np.inf if size else 0.0 for size, unit in units)


class Subject:
    """An architecture with its weights, quantised."""

    def __init__(self, net: str, weights: str, flow: str) -> None:
        self.net, self.weights, self.flow = net, weights, flows.FLOWS[flow]
        model, self.inputs = nets.build(net, weights)
        self.eager = Eager(model)
        samples = [(self.call(number), {}) for number in (0, *range(CALIBRATION, CALIBRATION + 3))]
        self.exported = flows.export(model, samples[0], None)
        self.graph = flows._quantize(self.flow, self.exported, samples)
        self.source = flows.export(self.graph, samples[0], None)
        self.edge = proof.edge_of(self.source)
        self.data = proof.lowered(copy.deepcopy(self.source), flow)

    def call(self, number: int) -> tuple[Any, ...]:
        """Return inputs: number 0 is the example."""
        return proof.inputs_of(self.inputs, number)

    @cache
    def spread(self) -> list[tuple[float, float]]:
        """Return the RMS of each output's rounding noise (ties that round to the other side), by
        `parts`."""
        call, oracle = [(self.inputs, {})], Eager(self.graph)
        right = oracle(call)[0]
        runs = [oracle(call, RandomRounding(100 + seed))[0] for seed in range(4)]
        results = []
        for i, value in enumerate(right):
            wide = np.asarray(value, np.float64)
            noise = parts(np.stack([np.asarray(run[i], np.float64) - wide for run in runs]), value)
            body, masked = (max(a, EPSILON * b) for a, b in zip(noise, parts(wide, value)))
            results.append((body, masked))
        return results

    def check(self, data: bytes, number: int = 0) -> tuple[str, float]:
        """Return the verdict on a program, and its error in units of rounding noise."""
        program = Runtime.get().load_program(data)
        subject = flows.Subject(
            self.flow.name,
            program,
            self.exported,
            source=self.edge,
            quantized=self.graph,
            quantizes=True,
        )
        try:
            official = Official(asked=False, seconds=0.0)
            check = Check(subject, self.eager, "forward", OPTIONS, (self.inputs, {}), official)
        except Error:  # XNNPACK rejects pooling and similar operators that change a scale
            return "refused", np.inf
        case = check.run(CallSequence("random", str(number), ((self.call(number), {}),)))
        if case.comparison is None:  # it fails at run time
            return "refused", np.inf
        actual = check.ours([self.call(number)])[0]
        size = 0.0
        for ours, theirs, noise in zip(
            actual, check.oracle([(self.call(number), {})])[0], self.spread()
        ):
            size = max(size, error_size(ours, theirs, noise))
        return case.comparison.verdict, size


# ---- faults -----------------------------------------------------------------------------------

Editor = Callable[[Any, np.random.Generator], "list[str] | None"]
"""Damages an ExportedProgram; returns the affected layers, or None without a place for the
fault."""

PER_TENSOR, PER_CHANNEL = "dequantize_per_tensor", "dequantize_per_channel"


def _around(node: Any) -> list[str]:
    """Return the layers that compute a value and those that read it."""
    results, queue = [], [(node, step) for step in ("all_input_nodes", "users")]
    while queue:
        at, step = queue.pop()
        for other in getattr(at, step):
            layer = module_of(other) if other.op == "call_function" else None
            if layer:
                results.append(layer)
            else:
                queue.append((other, step))
    return results


def _pick(program: Any, rng: np.random.Generator, name: str) -> Any:
    """Return a node that calls an operator: of those that dequantise, one of an activation whose
    scale is known at export. None without such a node."""
    named = [
        n
        for n in program.graph.nodes
        if n.op == "call_function"
        and faults.operator(n) == name
        and (
            name != PER_TENSOR or (isinstance(n.args[1], float) and n.args[0].op == "call_function")
        )
    ]
    return named[int(rng.integers(len(named)))] if named else None


def _activation(change: Callable[[float, int], tuple[float, int]], whole: bool) -> Editor:
    """Change the scale and zero point of a value for its readers (and its writer)."""

    def edit(program: Any, rng: np.random.Generator) -> list[str] | None:
        node = _pick(program, rng, PER_TENSOR)
        if node is None:
            return None
        writer = node.args[0]
        for one in (writer, *writer.users) if whole else (node,):
            value, scale, zero, *rest = one.args
            one.args = (value, *change(scale, zero), *rest)
        return _around(node)

    return edit


def _bias(program: Any, rng: np.random.Generator) -> list[str] | None:
    """Change a bias by a tenth of the RMS of its layer's biases."""
    for name in rng.permutation(["conv2d", "linear"]):
        node = _pick(program, rng, str(name))
        if node is not None and len(node.args) > 2 and node.args[2] is not None:
            constant = _constant(program, node.args[2])
            values = program.state_dict[constant].detach().clone()
            change = 0.1 * (float(values.double().std()) or 1.0)
            values[int(rng.integers(len(values)))] += (
                change if values.is_floating_point() else max(round(change), 1)
            )
            program.state_dict[constant] = torch.nn.Parameter(values, requires_grad=False)
            return [layer for layer in (module_of(node),) if layer]
    return None


def _constant(program: Any, node: Any) -> str:
    """Return the name of the parameter or buffer that a node is, or dequantises."""
    while node.op != "placeholder":
        node = node.args[0]
    signature = program.graph_signature
    name: str = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}[node.name]
    return name


def _appended(change: Callable[[Any, Any, float], Any]) -> Editor:
    """Append operators to the first floating-point output."""

    def edit(program: Any, rng: np.random.Generator) -> list[str]:
        graph = program.graph
        outputs = graph.find_nodes(op="output")[0]
        flat = list(outputs.args[0])
        names = [spec.arg.name for spec in program.graph_signature.output_specs]
        at = next(
            i
            for i, spec in enumerate(program.graph_signature.output_specs)
            if spec.kind.name == "USER_OUTPUT"
        )
        value = flat[at]
        dequantizer = PER_TENSOR in str(value.target)
        with graph.inserting_before(outputs):
            wrong = change(graph, value, value.args[1] if dequantizer else 0.01)
        wrong.meta = {**value.meta, "nn_module_stack": {}}
        flat[at] = wrong
        outputs.args = (tuple(flat),)
        program.graph_signature.replace_all_uses(names[at], wrong.name)
        return []

    return edit


def _call(target: Any, *rest: Any) -> Callable[[Any, Any, float], Any]:
    return lambda graph, value, step: graph.call_function(target, (value, *rest))


FAULTS: dict[str, Editor] = {
    "zero point off by one where it is read": _activation(
        lambda scale, zero: (scale, zero + (1 if zero < 127 else -1)), whole=False
    ),
    "zero point off by one": _activation(
        lambda scale, zero: (scale, zero + (1 if zero < 127 else -1)), whole=True
    ),
    "scale off 1 % where it is read": _activation(
        lambda scale, zero: (scale * 1.01, zero), whole=False
    ),
    "scale off 1 %": _activation(lambda scale, zero: (scale * 1.01, zero), whole=True),
    "biased channel": _bias,
    "output one step off": _appended(
        lambda graph, value, step: graph.call_function(torch.ops.aten.add.Tensor, (value, step))
    ),
    "output scaled 1 %": _appended(_call(torch.ops.aten.mul.Tensor, 1.01)),
    "output zeroed": _appended(_call(torch.ops.aten.mul.Tensor, 0.0)),
    "output rolled": _appended(_call(torch.ops.aten.roll.default, [1], [-1])),
}
"""Faults in the graph of a quantised model."""


FAULTS |= {name: partial(faults.in_graph, name=name) for name in faults.IN_GRAPHS}


# ---- rows -------------------------------------------------------------------------------------


def right_programs(subject: Subject, calls: int) -> Iterator[proof.Row]:
    """Yield the verdicts on several calls of a right program."""
    for number in range(calls):
        verdict, size = subject.check(subject.data, number)
        yield proof.Row(subject.net, subject.weights, subject.flow.name, "right", "", size, verdict)


def _row(
    subject: Subject, name: str, data: bytes, layers: list[str], is_asked: bool = True
) -> proof.Row:
    """Return the verdict on a program; `is_asked`: and whether `explain` names the layer."""
    verdict, size = subject.check(data)
    asked = is_asked and size > proof.TEN and layers and verdict != "refused"
    named = proof.is_named(subject, data, layers) if asked else None
    return proof.Row(
        subject.net,
        subject.weights,
        subject.flow.name,
        "quantised",
        name,
        size,
        verdict,
        ", ".join(layers),
        named,
    )


def weight_faults(
    subject: Subject, seed: int, count: int, parts: int = 1, named: int = 1
) -> Iterator[proof.Row]:
    """Yield the verdicts on programs with damaged int8 weights or scales.

    Args:
        count: The number of layers.
        parts: Each fault is planted in all filters of a layer, in all but the first part of them,
            and so on.
        named: `explain` is asked for the layer of every n-th fault.
    """
    rng = np.random.default_rng(seed)
    weights = list(filter(_is_weight, subject.source.graph.nodes))
    done = planted = 0
    for at in rng.permutation(len(weights)):
        node = weights[at]
        pairs = [(_placed(subject, arg), table) for arg, table in zip(node.args[:2], TABLES)]
        placed = [(place, table) for place, table in pairs if place is not None]
        if done == count or not placed or placed[0][1] is not faults.IN_INTEGERS:
            continue
        done += 1
        for place, name, change in _changes(placed, parts):
            wrong = place.changed(subject.data, change)
            if wrong != subject.data:
                planted += 1
                yield _row(subject, name, wrong, _around(node), planted % named == 0)


def _is_weight(node: Any) -> bool:
    """Return True if a node dequantises an int8 constant, by tensor or by filter."""
    by_filter = faults.operator(node) == PER_CHANNEL and node.args[3] == 0
    if not by_filter and faults.operator(node) != PER_TENSOR:
        return False
    return node.args[0].op == "placeholder" and node.args[0].meta["val"].dtype == torch.int8


TABLES = (faults.IN_INTEGERS, faults.IN_SCALES)
"""Faults of the first two arguments of `dequantize_per_channel`; scales by tensor are numbers."""


def _placed(subject: Subject, node: Any) -> faults.Placed | None:
    """Return the place of a weight or of its scales in the program; None if the flow changes them
    on the way (to multipliers and shifts), they occur twice, or are a number by tensor."""
    if not hasattr(node, "op"):
        return None
    value = subject.source.state_dict[_constant(subject.source, node)].numpy()
    return faults.placed(subject.data, "", value) if value.ndim in faults.LAYOUTS else None


def _changes(
    placed: Sequence[tuple[faults.Placed, dict[str, Any]]], parts: int
) -> Iterator[tuple[faults.Placed, str, Callable[[np.ndarray], None]]]:
    """Yield the faults of some weights, each in as many parts of the filters."""
    for place, table in placed:
        filters = place.value.shape[place.axes[0]]
        for start in sorted({filters * part // parts for part in range(parts)}):
            for name, change in table.items():
                yield place, name, lambda weight, s=start, c=change: c(weight[s:])


def graph_faults(subject: Subject, seed: int, most: int) -> Iterator[proof.Row]:
    """Yield the verdicts on programs lowered from damaged graphs."""
    source, flow = subject.source, subject.flow.name
    for name, data, layers in proof.damaged(subject.net, source, flow, FAULTS, seed, most):
        yield _row(subject, name, data, layers)
