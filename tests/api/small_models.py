"""Models of the zoo in small libraries: `python -m tests.api.small_models FOLDER [NAME ...]` builds
one with sanitizers for each set of dtypes that models have, runs the first call of each method with
ec-run, which compares outputs with the package's, and prints a line for each program that fails."""

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import executorch_c
from executorch_c import _selective
from executorch_c.bundled import BundledProgram
from tests import process
from tests.api import c_library
from tests.models import zoo


def bundle(name: str, flow: str) -> bytes:
    """Return a model's program with the first call of each method, and the package's results."""
    model = zoo.load(name, flow)
    cases = {}
    for method, calls in model.calls.items():
        inputs = calls[0].inputs
        loaded = executorch_c.load(model.pte).load_method(method)
        cases[method] = [(inputs, list(loaded.execute(inputs)))]
    return BundledProgram(model.pte, cases).to_bytes()


def faults(folder: Path, programs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield what is wrong with models, each a name and a flow, in libraries with sanitizers."""
    sets = defaultdict(list)
    for name, flow in programs:
        needs = _selective.needs_of([executorch_c.load(zoo.export(name, flow))])
        sets[needs.dtypes].append((name, flow, needs.operators))
    for kept, rows in sets.items():
        library = folder / "_".join(sorted(kept))
        operators = {operator for *_, names in rows for operator in names}
        c_library.build_small(library, operators, kept, c_library.SANITIZED)
        for name, flow, _ in rows:
            file = library / f"{name}-{flow}.bpte"
            file.write_bytes(bundle(name, flow))
            for method in executorch_c.load(zoo.export(name, flow)).method_names:
                done = process.run(
                    library / "ec-run", "--method", method, file, ok=False, timeout=600
                )
                if done.returncode:
                    text = f"{done.stdout[-300:]} {done.stderr[-1500:]}"
                    yield f"{name} {flow} {method}: exit code {done.returncode}: {text}"


def main() -> None:
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    programs = [(name, flow) for name in names or zoo.names() for flow in zoo.FLOWS]
    count = 0
    for text in faults(Path(folder), programs):
        print(text, flush=True)
        count += 1
    print(f"{len(programs)} programs, {count} faults", file=sys.stderr)


if __name__ == "__main__":
    main()
