"""Every operator that both runtimes have, on some hundred thousand elements.

Each program has one instruction and is built without an exporter (tests/single_op.py).
`python -m benchmarks.bench_operators --help` lists options for work on a kernel: dtype, number of
threads, size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import CACHE, OFFICIAL, OURS, Row, Table, geometric_mean, seconds
from benchmarks.operator_inputs import arguments
from benchmarks.operator_workers import Workers

HOW = """\
One instruction on arrays of about 262,144 elements (products: 256 x 256), in float32 or another
dtype of the operator. One process per runtime, in turn, with one thread each. Minimum of five
medians. Programs without exporter and delegates."""
DTYPES = ("float32", "int64", "bool", "complex64")
SWEEP = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
)
DOUBTFUL = 1.1  # lower ratios are measured again
# No arrays, or no measurable time.
LEFT_OUT = (
    "executorch_prim::",
    "aten::sym_",
    "aten::_local_scalar_dense",
    "et_copy::",
    "aten::scalar_tensor.out",
    "aten::empty.out",
    "dim_order_ops::_empty_dim_order.out",
)


def official_names() -> list[str]:
    from executorch.runtime import Runtime

    return list(Runtime.get().operator_registry.operator_names)


def schemas() -> dict[str, str]:
    """Return the schemas of the common operators, by name."""
    from executorch_c import operators

    both = set(official_names())
    schemas = {str(row["name"]): str(row["schema"]) for row in operators()}
    return {n: s for n, s in sorted(schemas.items()) if n in both and not n.startswith(LEFT_OUT)}


def has_dtype(args: list[Any], dtype: str) -> bool:
    """Return True if one of the arrays, including those in lists, has the dtype."""
    return any(
        has_dtype(a, dtype) if isinstance(a, list) else str(getattr(a, "dtype", "")) == dtype
        for a in args
    )


def program(
    name: str, schema: str, dtypes: tuple[str, ...], small: bool = False
) -> tuple[Path, list[Any]] | None:
    """Return a program that calls the operator in the first dtype that eager supports, with its
    inputs; None without such a call."""
    from tests.kernels import rows
    from tests.single_op import SingleOps

    for dtype in dtypes:
        args = arguments(name, schema, dtype, small)
        results = rows.wanted(name, args, dtype) if args is not None else None
        if args is None or results is None:
            continue
        if len(dtypes) == 1 and not has_dtype(args, dtype):
            continue  # the sweep of another dtype covers it
        ops = SingleOps()
        method = rows.add(ops, name, args, rows.outs_of(results))
        path = CACHE / f"op_{name.replace(':', '_')}.pte"
        path.write_bytes(ops.build())
        return path, [np.copy(v) if isinstance(v, np.ndarray) else v for v in ops.inputs[method]]
    return None


def rows_of(
    workers: Workers,
    schemas: dict[str, str],
    dtypes: tuple[str, ...],
    budget: float,
    small: bool = False,
    repeat: int = 0,
) -> Iterator[tuple[str, Row | None]]:
    """Yield a row for each operator, None without a comparison. Rows below DOUBTFUL are measured
    up to `repeat` more times; the minimum of each runtime counts."""
    CACHE.mkdir(exist_ok=True)
    for name, schema in schemas.items():
        call = program(name, schema, dtypes, small)
        times = workers.time(*call, budget, 5) if call else None
        for _ in range(repeat):
            if not call or not times or times[OFFICIAL] / times[OURS] >= DOUBTFUL:
                break
            again = workers.time(*call, 2 * budget, 5)
            times = {k: min(v, again[k]) for k, v in times.items()} if again else times
        label = f"`{name}`" + (f" {dtypes[0]}" if len(dtypes) == 1 else "")
        yield name, Row(label, times[OFFICIAL], times[OURS], seconds) if times else None


def summary(what: str, rows: list[Row]) -> str:
    slower = [f"{r.what} {r.ratio:.2f}" for r in sorted(rows, key=lambda r: r.ratio) if r.ratio < 1]
    mean = geometric_mean(rows) if rows else float("nan")
    return (
        f"{what}: {len(rows)} operators, geometric mean {mean:.2f}, "
        f"{len(slower)} below 1.0{': ' if slower else ''}{', '.join(slower)}."
    )


def measure(quick: bool) -> Table:
    table, left = Table("Operators", HOW, geometric_mean=True), []
    wanted = schemas()
    for threads in (1, 2):
        workers, rows = Workers(threads), []
        for name, row in rows_of(workers, wanted, DTYPES, 0.06 if quick else 0.3, repeat=2):
            if row:
                rows.append(row)
            elif threads == 1:
                left.append(name)
        workers.close()
        table.rows += rows if threads == 1 else []
        table.notes.append(summary(f"{threads} thread{'s' * (threads > 1)} each", rows))
    table.notes.append(f"Not measured: {', '.join(left) or 'none'}.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.bench_operators", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names; default: all")
    parser.add_argument(
        "--dtypes",
        nargs="+",
        choices=SWEEP,
        default=SWEEP,
        metavar="DTYPE",
        help=f"of {', '.join(SWEEP)} (default: all)",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each runtime's pool")
    parser.add_argument("--small", action="store_true", help="about 1,000 elements")
    parser.add_argument("--budget", type=float, default=0.06, help="seconds per operator")
    parser.add_argument(
        "--repeat",
        type=int,
        default=3,
        metavar="N",
        help=f"measure ratios below {DOUBTFUL} up to N more times",
    )
    args = parser.parse_args()
    parts = args.names or [""]
    wanted = {n: s for n, s in schemas().items() if any(part in n for part in parts)}
    workers, lines = Workers(args.threads), []
    for dtype in args.dtypes:
        rows = []
        for _, row in rows_of(workers, wanted, (dtype,), args.budget, args.small, args.repeat):
            if row:
                rows.append(row)
                print(
                    f"{row.ratio:8.2f} {seconds(row.official):>9} {seconds(row.ours):>9}  "
                    f"{row.what}",
                    flush=True,
                )
        lines.append(summary(dtype, rows))
    workers.close()
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
