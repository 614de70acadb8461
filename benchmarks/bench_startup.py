"""Cold start: process start to first output, imports alone, and memory."""

from __future__ import annotations

from benchmarks.common import OFFICIAL, OURS, Row, Table, alternate_children, megabytes, seconds
from benchmarks.common import zoo_program

FIRST_OUTPUT = {
    OFFICIAL: """
import torch
from executorch.runtime import Runtime
program = Runtime.get().load_program(sys.argv[1])
[output] = program.load_method("forward").execute([torch.ones({shape})])
""",
    OURS: """
import numpy
from executorch_c import Runtime
program = Runtime.get().load_program(sys.argv[1])
[output] = program.load_method("forward").execute([numpy.ones({shape}, numpy.float32)])
""",
}
IMPORT = {
    OFFICIAL: "import executorch.runtime",
    OURS: "import executorch_c",
    "numpy": "import numpy",
    "python": "",
}
TIMED_IMPORT = """
from time import perf_counter
start = perf_counter()
{code}
report["import"] = perf_counter() - start
"""


def first_output(name: str, rounds: int) -> list[Row]:
    """Return rows on process start to first output of one model."""
    path, _, inputs = zoo_program(name)
    shape = inputs[0].shape
    codes = {who: code.format(shape=shape) for who, code in FIRST_OUTPUT.items()}
    reports = alternate_children(codes, rounds, str(path))
    what = f"{name}, input {'x'.join(map(str, shape))}"
    return [
        Row(
            f"{what}: process start to first output",
            reports[OFFICIAL]["wall"],
            reports[OURS]["wall"],
            seconds,
        ),
        Row(
            f"{what}: peak resident memory",
            reports[OFFICIAL]["rss"],
            reports[OURS]["rss"],
            megabytes,
        ),
    ]


def measure(quick: bool) -> Table:
    how = "New processes in turn, files in the page cache. No delegate in the programs."
    table = Table("Cold start", how)
    table.rows += first_output("mobilenet_v2", 2 if quick else 7)
    if not quick:
        table.rows += first_output("mobilenet_v2_224", 3)
    codes = {who: TIMED_IMPORT.format(code=code) for who, code in IMPORT.items()}
    reports = alternate_children(codes, 2 if quick else 9)
    against_numpy = reports[OURS]["import"] / reports["numpy"]["import"]
    table.rows += [
        Row(
            "import",
            reports[OFFICIAL]["import"],
            reports[OURS]["import"],
            seconds,
            f"{against_numpy:.2f} times `import numpy` ({seconds(reports['numpy']['import'])})",
        ),
        Row(
            "import: peak resident memory",
            reports[OFFICIAL]["rss"],
            reports[OURS]["rss"],
            megabytes,
            f"`import numpy`: {megabytes(reports['numpy']['rss'])}, "
            f"python alone {megabytes(reports['python']['rss'])}",
        ),
    ]
    return table
