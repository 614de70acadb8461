"""Samples of operators on a library that keeps some dtypes: `python -m tests.api.small_rows
DTYPE,... OPERATOR ...` prints a line for each operator that ends its process, or calls a dropped
loop. EXECUTORCH_C_CORE_LIB is the library."""

import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from tests.kernels import rows
from tests.op_harness import OpError
from tests.single_op import dtype_name, is_tensor

SAMPLES = 3
"""Maximum number of samples of an operator and dtype."""


def dtypes_of(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from dtypes_of(item)
    elif is_tensor(value):
        yield dtype_name(value)
    elif hasattr(value, "dtype"):
        yield value.dtype  # of an Out


def run(name: str, kept: set[str]) -> str:
    """Return the first fault of an operator, or an empty text."""
    for dtype in sorted(kept & set(rows.dtypes_of(name))):
        for args in rows.every_sample(name, dtype)[:SAMPLES]:
            ((_, results),) = rows.expected(name, [args], dtype)
            if results is None:
                continue
            outs = rows.outs_of(results)
            if set(dtypes_of([args, outs])) <= kept:
                try:
                    rows.called(name, args, outs)
                except OpError as error:
                    if "dropped" in str(error):
                        return f"{dtype}: {error}"
    return ""


def main() -> None:
    warnings.simplefilter("ignore")
    kept = set(sys.argv[1].split(","))
    for name in sys.argv[2:]:
        child = os.fork()
        if not child:
            fault = run(name, kept)
            if fault:
                print(f"{name}: {fault}", flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(f"{name}: signal {os.WTERMSIG(status)}", flush=True)


if __name__ == "__main__":
    main()
