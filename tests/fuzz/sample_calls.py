"""Valid calls of every operator: samples of tests/kernels, with outputs of eager's shapes and
dtypes.

`random_calls` rarely generates valid convolutions, norms and reductions. These seeds are valid, and
the fuzzer damages them.
"""

import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.random_calls import parse, schemas
from tests.dtypes import DTYPES, dtype_id
from tests.plans import BOUNDED, STATIC, UNBOUND
from tests.single_op import Arg, Out, SingleOps

KERNELS = Path(__file__).parents[1] / "kernels"
LARGEST = 20000  # maximum number of elements of an argument, to keep files small
Samples = Callable[[np.random.Generator, str], Iterator[list]]


def all_samples() -> dict[str, Samples]:
    """Return the samples of every operator, by name."""
    table: dict[str, Samples] = {}
    for path in sorted(KERNELS.glob("samples_*.py")):
        for value in vars(importlib.import_module(f"tests.kernels.{path.stem}")).values():
            if isinstance(value, dict):
                table |= {k: v for k, v in value.items() if isinstance(k, str) and "::" in k}
    return table


def elements(value: Any) -> int:
    """Return the number of elements of all arrays in an argument list."""
    if isinstance(value, list):
        return sum(elements(v) for v in value)
    return value.size if isinstance(value, np.ndarray) else 1


def pick(samples: Samples, rng: np.random.Generator, count: int) -> list[list]:
    """Return some argument lists, with as many dtypes as possible."""
    items = []
    for dtype in rng.permutation(list(DTYPES)):
        try:
            rows = list(itertools.islice(samples(rng, str(dtype)), 60))
        except Exception:  # some sample functions lack dtypes
            continue
        small = [row for row in rows if elements(row) < LARGEST]
        if small and len(items) < count:
            items.append(small[rng.integers(len(small))])
    return items


def given(value: Any, rng: np.random.Generator) -> Any:
    """Return an argument of a sample as an argument of a program."""
    if isinstance(value, np.ndarray):
        dynamism = int(rng.choice([STATIC, STATIC, BOUNDED]))
        return Arg(
            value, constant=rng.random() < 0.2, planned=rng.random() < 0.5, dynamism=dynamism
        )
    if isinstance(value, list):
        return [given(v, rng) for v in value]
    return dtype_id(str(value)) if type(value).__name__ == "DType" else value


def out_like(result: np.ndarray, rng: np.random.Generator) -> Out:
    dynamism = int(rng.choice([STATIC, STATIC, BOUNDED, UNBOUND]))
    return Out(result.shape, result.dtype.name, None, dynamism, planned=dynamism != UNBOUND)


def add_call(ops: SingleOps, schema: str, args: list, rng: np.random.Generator) -> bool:
    """Add a method that calls the operator; return False if eager cannot compute it."""
    from tests.kernels.eager import eager

    name, arguments, _ = parse(schema)
    written = [(kind, marks) for kind, write, marks in arguments if write]
    if len(args) + len(written) != len(arguments):
        return False
    try:
        results = eager(name, args)
    except Exception:  # eager raises many types, or lacks the form
        return False
    outs: list[Any] = [out_like(np.asarray(r), rng) for r in results]
    if written and "[" in written[0][1]:
        outs = [outs]
    if len(outs) != len(written):
        return False
    ops.add(name, *(given(a, rng) for a in args), *outs)
    return True


def programs(seed: int, calls: int = 8) -> Iterator[tuple[str, bytes]]:
    """Yield one program per operator, with the given number of calls."""
    samples = all_samples()
    for schema in schemas():
        name = parse(schema)[0]
        if name not in samples:
            continue
        rng = np.random.default_rng([seed, *name.encode()])
        ops = SingleOps()
        if any([add_call(ops, schema, args, rng) for args in pick(samples[name], rng, calls)]):
            yield re.sub(r"\W", "_", name), ops.build()
