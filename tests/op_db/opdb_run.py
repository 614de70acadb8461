"""Run recorded programs here and in the official runtime, and judge the results."""

import atexit
import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tests.kernels.official_worker import Official
from tests.op_db.opdb_export import Record, arrays, by_eager, reason, records
from tests.op_db.opdb_judge import OPEN_ORDER, OPEN_PHASE, difference, point_alike, turned
from tests.op_db.opdb_samples import entries

RUNTIMES = ("ours", "reference", "official")


@dataclass
class Outcome:
    """Outcome of the samples of one function and dtype."""

    name: str
    dtype: str
    refused: int = 0  # rejected by eager
    unasked: int = 0  # of tensors without NumPy equivalent
    unexported: list[str] = field(default_factory=list)
    exported: int = 0
    operators: set[str] = field(default_factory=set)
    # Runtime -> (index of the sample, difference)
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    causes: list[str] = field(default_factory=list)  # of failures here


def inputs_of(record: Record) -> list[Any]:
    """Return copies of the inputs."""
    return [np.copy(v) for v in record.inputs]


def ours(record: Record, kernels: str) -> list[Any]:
    from executorch_c import Runtime

    method = Runtime.get().load_program(record.pte).load_method("forward", kernels=kernels)
    return list(method.execute(inputs_of(record)))


@functools.cache
def official_server() -> Official:
    server = Official()
    atexit.register(server.close)
    return server


def official(record: Record) -> list[Any]:
    ((how, outputs),) = official_server()(record.pte, [("forward", inputs_of(record))])
    if how != "ran":
        raise RuntimeError(f"{how}: {outputs}")
    return outputs


def run(record: Record, runtime: str) -> list[Any]:
    if runtime == "official":
        return official(record)
    return ours(record, "reference" if runtime == "reference" else "default")


def is_random(record: Record) -> bool:
    """Return True if the program draws random numbers. Samples that set torch's seed hide it from
    eager."""
    names = [n.removeprefix("aten::") for n in record.operators if n.startswith("aten::")]
    ops = [
        getattr(getattr(torch.ops.aten, n.split(".")[0]), (n + ".default").split(".")[1])
        for n in names
    ]
    return any(torch.Tag.nondeterministic_seeded in op.tags for op in ops)


def verdict(record: Record, runtime: str, name: str = "") -> str | None:
    """Return the difference of a runtime's results from eager's; None without one."""
    try:
        result = run(record, runtime)
    except Exception as error:
        return reason(error)
    result = result[max(0, len(result) - len(record.wanted)) :]  # after the inputs that it changes
    if len(result) != len(record.wanted):
        return f"{len(result)} outputs, eager {len(record.wanted)}"
    filled = record.filled and not is_random(record)
    for i, w in enumerate(record.wanted):
        wrong = judged(record, i, result[i], w, name, filled)
        if wrong:
            return f"output {i}: {wrong}"
    return None


def judged(record: Record, i: int, output: Any, wanted: Any, name: str, filled: bool) -> str | None:
    """Return the difference of output i. Functions may depend on the epsilon of their dtype, so
    that results close to eager's are right, too."""
    exact, terms = (
        (values or (None,) * len(record.wanted))[i] for values in (record.exact, record.terms)
    )
    vectors = OPEN_PHASE.get(name, {}).get(i)
    if vectors is not None and getattr(output, "shape", None) == wanted.shape:
        output = turned(output, wanted, vectors)
        exact = None if exact is None else turned(exact, wanted, vectors)
        terms = None  # a change of the arguments may change the phase
    wrong = None
    for reference in (exact, None):
        if reference is not None and reference.shape != wanted.shape:
            continue
        wrong = difference(output, wanted, reference, terms, filled)
        if wrong is None:
            return None
    if name in OPEN_ORDER and isinstance(output, np.ndarray):
        if point_alike(output, wanted, record.inputs[0]):
            return None
    return wrong


def cause(name: str, dtype: str, record: Record) -> str:
    """Return the reason why a sample fails here, if no runtime could compute it."""
    entry = entries()[name]
    try:
        result = by_eager(entry.module(entry.samples(dtype)[record.index]))
    except Exception as error:
        return f"eager rejects the program: {reason(error).splitlines()[0]}"
    pairs = enumerate(zip(arrays(tuple(result[-len(record.wanted) :])), record.wanted, strict=True))
    wrong = next(filter(None, (judged(record, i, f, w, name, True) for i, (f, w) in pairs)), None)
    return f"by eager, the program gives: {wrong}" if wrong else "unknown"


def outcome(name: str, dtype: str, count: int, runtimes: tuple[str, ...]) -> Outcome:
    """Export the samples that are not in the cache, and run all."""
    torch.set_num_threads(1)
    entry = entries()[name]
    result = Outcome(name, dtype, failures={r: [] for r in runtimes})
    for record in records(entry, dtype, count):
        if record.refused:
            result.refused += 1
        elif record.unasked:
            result.unasked += 1
        elif record.unexported:
            result.unexported.append(record.unexported)
        else:
            result.exported += 1
            result.operators |= set(record.operators)
            for runtime in runtimes:
                wrong = verdict(record, runtime, name)
                if wrong:
                    result.failures[runtime].append((record.index, wrong))
            if any(index == record.index for index, _ in result.failures.get("ours", [])):
                result.causes.append(cause(name, dtype, record))
    return result
