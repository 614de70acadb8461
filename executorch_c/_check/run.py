"""check_model: eager and the program on the same inputs."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c._check import cases as making
from executorch_c._check import flows
from executorch_c._check.cases import Case, leaves
from executorch_c._check.flows import Call, Subject, fresh
from executorch_c._check.result import CheckedCase, CheckResult, joined
from executorch_c._core import Method, MethodMeta, Program, TensorInfo
from executorch_c._gap import check_not_negative, tolerances
from executorch_c.testing import Comparison, _compare_one, _flatten, compare, count_problem

RANDOM_CALLS = 2
"""A model with state is called so many times more in the case "state"."""
NOISE = 2
"""Where an output has no scale, this many times what quantising itself changes is allowed: the
program and the quantised graph may both be so far from the float model, on either side."""


class Progress:
    """One line on a terminal, rewritten; nothing anywhere else."""

    def __init__(self, enabled: bool | None) -> None:
        self._on = sys.stderr.isatty() if enabled is None else enabled
        self._width = 0

    def __call__(self, text: str) -> None:
        if self._on:
            line = f"check_model: {text}" if text else ""
            print("\r" + line.ljust(self._width), end="\r" if not text else "", file=sys.stderr,
                  flush=True)  # fmt: skip
            self._width = len(line)


class Eager:
    """A PyTorch model that starts from the same state in each case."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, calls: Sequence[Call]) -> list[list[Any]]:
        """The outputs of each call, flat, as arrays and Python values."""
        import torch
        from torch.utils import _pytree

        module = fresh(self.model)
        outputs = []
        with torch.no_grad():
            for call in calls:
                args, kwargs = _pytree.tree_map(_cloned, call)
                tree = module(*args, **kwargs)
                flat = [v for leaf in _pytree.tree_leaves(tree) for v in _flatten(leaf)]
                outputs.append([_array(value) for value in flat])
        return outputs

    def changes_state(self, call: Call) -> bool:
        """Whether a call changes a buffer."""
        import torch
        from torch.utils import _pytree

        module = fresh(self.model)
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        with torch.no_grad():
            args, kwargs = _pytree.tree_map(_cloned, call)
            module(*args, **kwargs)
        after = dict(module.named_buffers())
        return any(
            name not in after or not torch.equal(value, after[name])
            for name, value in before.items()
        )


def _cloned(leaf: Any) -> Any:
    return leaf.detach().clone() if type(leaf).__module__.startswith("torch") and hasattr(
        leaf, "clone") else leaf  # fmt: skip


def _array(value: Any) -> Any:
    """Tensors as arrays that share nothing with them."""
    return np.copy(as_array(value), order="K") if hasattr(value, "detach") else value


def _inputs(call: Call) -> tuple[Any, ...]:
    """What the program takes: arrays in the tensors' own layouts, and what is no tensor."""
    return tuple(_array(leaf) for leaf in leaves(call))


class Judge:
    """Tolerances: given ones, or by dtype and size, or by the quantised graph."""

    def __init__(self, rtol: float | None, atol: float | None, **options: bool) -> None:
        self.rtol, self.atol = rtol, atol
        self.equal_nan, self.check_dtype = options["equal_nan"], options["check_dtype"]
        self.steps: list[float | None] = []
        """By output: what one step of its scale is, where it has one."""

    def __call__(self, actual: Sequence[Any], expected: Sequence[Any], before: Any) -> Comparison:
        """`before` are the outputs of the model before quantising, or None."""
        rows = []
        for i, (ours, theirs) in enumerate(zip(actual, expected)):
            rtol, atol = self.rtol, self.atol
            if atol is None and isinstance(theirs, np.ndarray):
                atol = self._atol(i, theirs, None if before is None else before[i])
            rows.append(
                _compare_one(i, ours, theirs, rtol, atol, self.equal_nan, self.check_dtype)
            )
        return Comparison(tuple(rows), count_problem(len(actual), len(expected)))

    def _atol(self, index: int, expected: Array, before: Any) -> float | None:
        """None: the default of the dtype, which integers and outputs without numbers have."""
        default = tolerances(expected.dtype)[1]
        if not default or not expected.size:
            return None
        finite = np.abs(expected[np.isfinite(expected)].astype("complex128"))
        largest = float(finite.max(initial=0.0))
        atol = default * max(1.0, largest)
        if before is None:
            return atol
        step = self.steps[index] if index < len(self.steps) else None
        if step is not None:
            return max(atol, step * (1 + 1e-4))  # a step is computed in float32
        gaps = np.abs(expected.astype("complex128") - as_array(before).astype("complex128"))
        return max(atol, NOISE * float(gaps[np.isfinite(gaps)].max(initial=0.0)))


def output_steps(graph: Any) -> list[float | None]:
    """By output of a quantised graph: the scale of the dequantisation that gives it."""
    [output] = [node for node in graph.graph.nodes if node.op == "output"]
    from torch.utils import _pytree

    return [_scale(node) for node in _pytree.tree_leaves(output.args[0])]


def _scale(node: Any) -> float | None:
    while hasattr(node, "op"):
        name = making.operator_name(node)
        if name == "dequantize_per_tensor" and isinstance(node.args[1], float):
            return node.args[1]
        if name not in making.PASSED_THROUGH | {"relu", "relu_", "hardtanh", "hardtanh_"}:
            return None
        node = node.args[0]
    return None


class Check:
    """One check_model: a subject, its reference, and the cases one by one."""

    def __init__(self, subject: Subject, eager: Eager, method: str, judge: Judge,
                 example: Call, kernels: Any) -> None:  # fmt: skip
        self.subject, self.eager, self.judge, self.example = subject, eager, judge, example
        self.kernels = kernels
        program = subject.program
        self.loaded = (program if isinstance(program, Method)
                       else program.load_method(method, kernels=kernels))  # fmt: skip
        self.meta: MethodMeta = self.loaded.metadata
        self.oracle = eager
        if subject.quantizes:
            self.oracle = Eager(subject.quantized)
            judge.steps = output_steps(subject.quantized)
        found = len(leaves(example))
        if self.meta.num_inputs() != found:
            raise ValueError(
                f"method '{self.meta.name()}' takes {self.meta.num_inputs()} inputs, the example "
                f"has {found}"
            )

    def limits(self) -> list[tuple[int, ...] | None]:
        """The largest sizes of each input that the program has room for."""
        return [info.shape if isinstance(info, TensorInfo) and info.is_dynamic else None
                for _, info in self.meta.inputs]  # fmt: skip

    def ours(self, calls: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The program's outputs of each call, from a fresh state."""
        self.loaded.reset()
        return [self.loaded.execute(list(inputs)) for inputs in calls]

    def run(self, case: Case) -> CheckedCase:
        """Both sides of one case. Raises what eager raises on inputs of the user's."""
        inputs = tuple(_inputs(call) for call in case.calls)
        try:
            expected = self.oracle(case.calls)
        except Exception as error:
            if case.kind not in ("edge", "random"):
                raise
            why = f"eager raises {type(error).__name__}: {_first_line(error)}"
            return CheckedCase(case.kind, case.about, inputs, None, skipped=why)
        before = self.eager(case.calls) if self.subject.quantizes else None
        try:
            actual = self.ours(inputs)
        except Exception as error:
            return CheckedCase(case.kind, case.about, inputs, None, error=error)
        return self._compared(case, inputs, actual, expected, before)

    def _compared(
        self,
        case: Case,
        inputs: tuple[tuple[Any, ...], ...],
        actual: list[list[Any]],
        expected: list[list[Any]],
        before: list[list[Any]] | None,
    ) -> CheckedCase:
        parts, floats, kept = [], [], []
        for i, (ours, theirs) in enumerate(zip(actual, expected)):
            ours, theirs = _without_none(ours, theirs)
            parts.append(self.judge(ours, theirs, before and before[i]))
            if before is not None:
                floats.append(compare(ours, before[i], check_dtype=False))
            kept.append((ours, theirs))
        comparison = joined(parts)
        sides = tuple(tuple(v for pair in kept for v in pair[side]) for side in (0, 1))
        ours_kept, theirs_kept = ((), ()) if comparison.ok else sides
        return CheckedCase(
            case.kind, case.about, inputs, comparison, to_float=joined(floats) if floats else None,
            actual=ours_kept, expected=theirs_kept,
        )  # fmt: skip

    def bundled(self, method: str) -> Iterator[CheckedCase]:
        """The test cases that a .bpte brings, against the outputs that it brings."""
        if self.subject.bundled is None:
            return
        for test in self.subject.bundled.cases:
            if test.method != method:
                continue
            case = Case("bundled", str(test.index), ())
            try:
                actual = self.ours([test.inputs])
            except Exception as error:
                yield CheckedCase("bundled", str(test.index), (test.inputs,), None, error=error)
                continue
            expected = [list(test.expected) or actual[0]]
            yield self._compared(case, (test.inputs,), actual, expected, None)


def _without_none(ours: list[Any], theirs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Both without what eager gives as None, where the program leaves that out."""
    some = [value for value in theirs if value is not None]
    return (ours, some) if len(ours) == len(some) != len(theirs) else (ours, theirs)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")


class Plan:
    """The cases of a check, made as they are needed."""

    def __init__(self, check: Check, real: Sequence[Call], n_random: int, seed: int) -> None:
        self.example, self.real, self.n_random, self.seed = check.example, real, n_random, seed
        self.exported = check.subject.exported
        count = len(leaves(self.example))
        self.bounds = making.index_bounds(self.exported, count)
        self.symbols = making.Symbols(self.exported, self.example, check.limits())
        self.skipped: list[CheckedCase] = []

    def _draw(self, number: int, shapes: Any = None) -> Call:
        return making.draw(self.example, shapes, self.bounds, self.seed * 7919 + number)

    @cached_property
    def _guards(self) -> Any:
        """What the exported program asserts of its inputs, as a function of them."""
        return getattr(self.exported.module(), "_guards_fn", None)

    def _refused(self, call: Call) -> str | None:
        """Why the exported program does not allow a call; None where it does."""
        try:
            if self._guards is not None:
                self._guards(*leaves(call))
        except AssertionError as error:
            return f"the exported program does not allow it: {_first_line(error)}"
        return None

    def __iter__(self) -> Iterator[Case]:
        yield Case("example", "", (self.example,))
        for i in range(self.n_random):
            yield Case("random", str(i), (self._draw(i),))
        for i, (name, shapes) in enumerate(self.symbols.edges()):
            call = self._draw(1000 + i, shapes)
            refused = self._refused(call)
            if refused is None:
                yield Case("edge", name, (call,))
            else:
                self.skipped.append(
                    CheckedCase("edge", name, (_inputs(call),), None, skipped=refused)
                )
        for i, call in enumerate(self.real):
            yield Case("real", str(i), (call,))

    def state(self) -> Case:
        """Several calls in a row: what one leaves in buffers is what the next one starts from."""
        calls = [self.example, *(self._draw(500 + i) for i in range(RANDOM_CALLS))]
        return Case("state", f"{len(calls)} calls", tuple(calls))


def _require_deterministic(eager: Eager, example: Call) -> None:
    """Raises ValueError where eager does not agree with itself."""
    [first], [second] = eager([example]), eager([example])
    if not compare(first, second):
        raise ValueError(
            "the model gives other outputs each time that it is called with the example (is it in "
            "training mode, with dropout? random operators?): nothing can be compared with it"
        )


def _module(model: Any) -> tuple[Any, Any]:
    """(the eager module, the ExportedProgram where that is what was given)."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return model.module(), model
    if isinstance(model, torch.nn.Module):
        return model, None
    if callable(model):

        class Function(torch.nn.Module):
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return model(*args, **kwargs)

        return Function(), None
    raise TypeError(
        f"model is a {type(model).__name__}, expected a torch.nn.Module, an ExportedProgram or a "
        "function"
    )


def _example(given: Any, exported: Any) -> Call:
    if given is None and exported is not None and exported.example_inputs is not None:
        args, kwargs = exported.example_inputs
        return tuple(args), dict(kwargs)
    if given is None:
        raise ValueError("example_inputs are needed: only an ExportedProgram brings its own")
    return making.as_call(given)


def _notes(check: Check, plan: Plan, model: Any, stateful: bool) -> Iterator[str]:
    yield from check.subject.notes
    if getattr(model, "training", False) and not check.subject.exported:
        yield "the model is in training mode: model.eval() is what is usually exported"
    dynamic = any(limit is not None for limit in check.limits())
    if dynamic and not plan.symbols.ranges:
        yield ("inputs of the program may change their shapes: give dynamic_shapes, and edge "
               "shapes are tried")  # fmt: skip
    program = check.subject.program
    if check.subject.label.startswith("xnnpack") and isinstance(program, Program):
        if not any(one["delegates"] for one in program.info()["methods"]):
            yield "nothing of the model was delegated to XNNPACK"
    if stateful and _starts_nonzero(check.eager):
        yield ("buffers that the model changes do not start from zero; the official exporter "
               "writes such values only with InitializedMutableBufferPass")  # fmt: skip
    if check.subject.quantizes and not plan.real:
        yield "calibrated on the example only: real_inputs make a better choice of scales"


def _starts_nonzero(eager: Eager) -> bool:
    return any(bool((buffer != 0).any()) for buffer in eager.model.buffers())


def _facts(check: Check, seconds: float, seed: int) -> dict[str, str]:
    import torch

    from executorch_c import __version__

    program = check.subject.program
    facts = {"program": check.subject.label, "method": check.meta.name()}
    if check.subject.size is not None:
        facts["bytes"] = f"{check.subject.size:,}"
    if isinstance(program, Program):
        for one in program.info()["methods"]:
            if one["name"] == check.meta.name():
                uses = [use["id"] for use in one["delegates"]]
                facts["instructions"] = f"{one['instructions']:,}"
                facts["delegates"] = (f"{len(uses)} ({', '.join(sorted(set(uses)))})"
                                      if uses else "none")  # fmt: skip
    judge = check.judge
    facts["rtol"] = "by dtype" if judge.rtol is None else f"{judge.rtol:g}"
    default = "by dtype and size of the output"
    if check.subject.quantizes:
        default = "a step of the output's scale"
    facts["atol"] = default if judge.atol is None else f"{judge.atol:g}"
    facts["seed"] = str(seed)
    facts["versions"] = f"executorch_c {__version__}, torch {torch.__version__}"
    facts["time"] = f"{seconds:.1f} s"
    return facts


def _require_torch() -> None:
    """Raises ImportError that says what to install."""
    missing = [name for name in ("torch", "executorch") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"check_model needs {' and '.join(missing)}: pip install executorch torch"
        )


def check_model(
    model: Any,
    example_inputs: Any = None,
    program_or_flow: Any = "portable",
    *,
    dynamic_shapes: Any = None,
    n_random: int = 3,
    real_inputs: Iterable[Any] = (),
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    method: str = "forward",
    kernels: Any = "default",
    data_path: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> CheckResult:
    """The body of executorch_c.testing.check_model, which says what all this is."""
    check_not_negative(rtol=rtol, atol=atol, n_random=n_random)
    _require_torch()
    start, say = time.perf_counter(), Progress(progress)
    module, exported = _module(model)
    if exported is not None and dynamic_shapes is not None:
        raise ValueError("an ExportedProgram has its dynamic shapes: dynamic_shapes is for modules")
    example = _example(example_inputs, exported)
    real = [making.like(making.as_call(one), example, i) for i, one in enumerate(real_inputs)]
    eager = Eager(module)
    _require_deterministic(eager, example)

    def exporter() -> Any:
        return exported if exported is not None else flows.export(module, example, dynamic_shapes)

    try:
        subject = flows.subject(
            program_or_flow, exporter, dynamic_shapes=dynamic_shapes, samples=[example, *real],
            method=method, data_path=data_path, say=say,
        )  # fmt: skip
        if subject.exported is None:
            subject.exported = exported
        if subject.source is None and not subject.quantizes:
            subject.source = exported
        judge = Judge(rtol, atol, equal_nan=equal_nan, check_dtype=check_dtype)
        check = Check(subject, eager, method, judge, example, kernels)
        return _run(check, Plan(check, real, n_random, seed), say, start, model)
    finally:
        say("")


def _run(
    check: Check, plan: Plan, say: Callable[[str], None], start: float, model: Any
) -> CheckResult:
    done = []
    for case in plan:
        say(f"{case.kind} {case.about}")
        done.append(check.run(case))
    stateful = check.eager.changes_state(check.example)
    if stateful:
        done.append(check.run(plan.state()))
    done += [*plan.skipped, *check.bundled(check.meta.name())]
    subject = check.subject
    from torch.utils import _pytree

    return CheckResult(
        label=subject.label,
        method=check.meta.name(),
        cases=tuple(done),
        notes=tuple(_notes(check, plan, model, stateful)),
        facts=_facts(check, time.perf_counter() - start, plan.seed),
        program=subject.program,
        reference=subject.quantized if subject.quantizes else check.eager.model,
        exported=subject.source,
        structure=_pytree.tree_structure(check.example),
        kernels=check.kernels,
    )
