"""Run programs: python xnnpack_outputs.py CASES OUTPUTS [EXTENSION].

CASES is a pickled list of programs, each with the inputs of its calls; OUTPUTS gets the outputs of
the calls. EXTENSION is another build of the backend.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import executorch_c as et

sys.path.append(str(Path(__file__).resolve().parents[2]))  # after an installed package
from tests.backends.xnnpack_mutate import use


def main() -> None:
    cases, target, *extensions = sys.argv[1:]
    for extension in extensions:
        use(extension)
    outputs = []
    for pte, calls in pickle.loads(Path(cases).read_bytes()):
        method = et.Runtime.get().load_program(pte).load_method("forward", num_threads=2)
        outputs.append([method.execute(inputs) for inputs in calls])
    Path(target).write_bytes(pickle.dumps(outputs))


if __name__ == "__main__":
    main()
