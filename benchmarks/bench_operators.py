"""Every operator that both runtimes have, on some hundred thousand elements.

Programs of one instruction each, put together without an exporter (tests/single_op.py).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import CACHE, OFFICIAL, OURS, ROOT, Row, Table, alternate, open_official
from benchmarks.common import open_ours, rounds_for, seconds, to_torch
from benchmarks.operator_inputs import arguments

sys.path.insert(0, str(ROOT / "tests" / "kernels"))

HOW = """\
One instruction on arrays of about 262,144 elements (products: 256 x 256), float32 or what the
operator takes, in turn, one process; the official runtime has its thread pool. Programs written
without an exporter, no delegates."""
DTYPES = ("float32", "int64", "bool", "complex64")
# No arrays, or nothing that takes time.
LEFT_OUT = ("executorch_prim::", "aten::sym_", "aten::_local_scalar_dense", "et_copy::",
            "aten::scalar_tensor.out", "aten::empty.out",
            "dim_order_ops::_empty_dim_order.out")  # fmt: skip


def official_names() -> list[str]:
    from executorch.runtime import Runtime

    return list(Runtime.get().operator_registry.operator_names)


def program(name: str, schema: str) -> tuple[Path, list[Any]] | None:
    """A program that calls the operator, with its inputs; None where eager has no such call."""
    import rows
    from single_op import SingleOps

    for dtype in DTYPES:
        args = arguments(name, schema, dtype)
        results = rows.wanted(name, args, dtype) if args is not None else None
        if results is None:
            continue
        ops = SingleOps()
        method = rows.add(ops, name, args, rows.outs_of(results))
        path = CACHE / f"op_{name.replace(':', '_')}.pte"
        path.write_bytes(ops.build())
        return path, [np.copy(v) if isinstance(v, np.ndarray) else v for v in ops.inputs[method]]
    return None


def row(name: str, path: Path, inputs: list[Any], budget: float) -> Row | None:
    official, ours = open_official(path, "op_0"), open_ours(path, "op_0")
    tensors = to_torch(inputs)
    calls = {OFFICIAL: lambda: official.execute(tensors), OURS: lambda: ours.execute(inputs)}
    try:
        calls[OFFICIAL]()
    except RuntimeError:
        return None  # it refuses the arguments
    found = alternate(calls, rounds_for(calls, budget, 5, 300))
    return Row(f"`{name}`", found[OFFICIAL], found[OURS], seconds)


def measure(quick: bool) -> Table:
    from executorch_c import operators

    CACHE.mkdir(exist_ok=True)
    table = Table("Operators", HOW, geometric_mean=True)
    schemas, left = {r["name"]: r["schema"] for r in operators()}, []
    for name in sorted(set(official_names()) & set(schemas)):
        if name.startswith(LEFT_OUT):
            continue
        made = program(name, schemas[name])
        found = row(name, *made, 0.03 if quick else 0.3) if made else None
        if found:
            table.rows.append(found)
        else:
            left.append(name)
    slower = [r.what for r in table.rows if r.ratio < 1]
    table.notes.append(f"Slower than the official runtime: {', '.join(slower) or 'none'}.")
    table.notes.append(f"Not measured: {', '.join(left) or 'none'}.")
    return table
