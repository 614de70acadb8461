"""One-op programs of operators in a small library: `python -m tests.api.small_rows FOLDER DTYPE,...
OPERATOR ...` runs samples in these dtypes with FOLDER/ec-run, which compares outputs with eager's
or, beyond its limits, the package's, and prints a line for each operator that fails."""

import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np

from executorch_c.bundled import BundledProgram
from tests import process
from tests.kernels import decomp_check, eager, rows
from tests.single_op import SingleOps, dtype_name, is_tensor

SAMPLES = 2
"""Maximum number of samples of an operator and dtype."""
DIFFERENT = 3
"""Exit code of ec-run."""


def dtypes_of(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from dtypes_of(item)
    elif is_tensor(value):
        yield dtype_name(value)


def array(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) or not is_tensor(value) else eager.to_numpy(value)


def bundle(name: str, kept: list[str]) -> tuple[bytes, list[str]]:
    """Return a program with a method for each sample whose tensors have these dtypes, with eager's
    results, and the names of the methods."""
    ops, cases = SingleOps(), dict[str, Any]()
    for dtype in sorted({*kept} & {*rows.dtypes_of(name)}):
        for args, results in rows.samples(name, dtype, SAMPLES)[:SAMPLES]:
            if results is None or not {*dtypes_of([args, results])} <= {*kept}:
                continue
            method = rows.add(ops, name, args, rows.outs_of(results))
            inputs = [array(value) for value in ops.inputs[method]]
            cases[method] = [(inputs, [array(value) for value in results])]
    return BundledProgram(ops.build(), cases).to_bytes() if cases else b"", [*cases]


def is_exact(name: str) -> bool:
    """Return whether eager's results are the only ones."""
    is_random = rows.tables()[name][0] == "random"
    return not (is_random or name in decomp_check.CHECKS or name in (*rows.UNFILLED, rows.ROW))


def with_results_of_the_package(data: bytes, method: str) -> bytes:
    """Return a program with the package's results, which tests/kernels judges by the operator's
    limits, in place of eager's."""
    bundle = BundledProgram.load(data)
    inputs = [*bundle.case(method).inputs]
    cases = {method: [(inputs, bundle.run(method))]}
    return BundledProgram(bundle.program_data, cases).to_bytes()


def run(runner: Path, method: str, file: Path, data: bytes) -> CompletedProcess[str]:
    file.write_bytes(data)
    return process.run(runner, "--method", method, file, ok=False, timeout=300)


def faults(name: str, kept: list[str], runner: Path, file: Path) -> Iterator[str]:
    """Yield what is wrong with an operator."""
    data, methods = bundle(name, kept)
    for method in methods:
        done = run(runner, method, file, data)
        if done.returncode == DIFFERENT and is_exact(name):
            done = run(runner, method, file, with_results_of_the_package(data, method))
        if done.returncode != 0 and (done.returncode != DIFFERENT or is_exact(name)):
            text = f"{done.stdout[-300:]} {done.stderr[-1500:]}"
            yield f"{name} {method}: exit code {done.returncode}: {text}"


def main() -> None:
    warnings.simplefilter("ignore")
    folder, kept, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            file = Path(temporary, "row.bpte")
            for text in faults(name, kept.split(","), Path(folder, "ec-run"), file):
                print(text, flush=True)


if __name__ == "__main__":
    main()
