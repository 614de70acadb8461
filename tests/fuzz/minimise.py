"""The smallest inputs that take the edges of a campaign's inputs, for the corpus of the tree.

Each input runs once in a build that counts edges of the control flow (gcc's
-fsanitize-coverage=trace-pc; `csrc/testing/fuzz_edges.c`). Inputs are chosen one by one: next is
the one with the most new edges per byte. First, each target gets LEAST inputs by its own edges;
then all targets share one set of edges, because they run the same runtime.
"""

import argparse
import hashlib
import heapq
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.fuzz.driver import FAST, kept_build, with_xnnpack
from tests.fuzz.seeds import CORPUS, LARGEST, PROGRAM, TARGETS, kept_files

COUNTED = f"{FAST} -fsanitize-coverage=trace-pc"
LEAST = 11
"""Inputs of a target at least."""
MOST = 1_000_000
"""Bytes of the corpus at most."""
Edges = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Input:
    """Attributes:
    target: Name of the target.
    file: Its bytes.
    edges: Numbers of the edges that it takes, ascending.
    """

    target: str
    file: Path
    edges: Edges

    @property
    def size(self) -> int:
        return self.file.stat().st_size


def cover(inputs: Sequence[Input], taken: set[int], inputs_most: int, bytes_most: int) -> list[int]:
    """Return the places of inputs that take all edges, best first, within limits; add their edges
    to `taken`."""
    room, chosen = bytes_most, []
    heap = [(-len(one.edges) / max(one.size, 1), i) for i, one in enumerate(inputs)]
    heapq.heapify(heap)
    while heap and len(chosen) < inputs_most:
        _, i = heapq.heappop(heap)
        size = max(inputs[i].size, 1)
        gain = sum(edge not in taken for edge in inputs[i].edges.tolist()) / size
        if not gain or size > room:
            continue
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, i))  # its gain is smaller by now
            continue
        chosen.append(i)
        room -= size
        taken.update(inputs[i].edges.tolist())
    return chosen


def smallest(inputs: Sequence[Input], fixed: Sequence[Input] = (), most: int = MOST) -> list[Input]:
    """Return the inputs of the corpus: what takes other edges than those that the tree has
    anyway."""
    chosen: dict[Path, Input] = {}
    for target in dict.fromkeys(one.target for one in inputs):
        own = [one for one in inputs if one.target == target]
        there = [one for one in fixed if one.target == target]
        best = cover(own, set(edges_of(there)), max(LEAST - len(there), 0), most)
        chosen.update((own[i].file, own[i]) for i in best)
    taken = set(edges_of([*chosen.values(), *fixed]))
    room = most - bytes_of(chosen.values())
    rest = [one for one in inputs if one.file not in chosen]
    return [*chosen.values(), *(rest[i] for i in cover(rest, taken, len(rest), room))]


def edges_of(inputs: Iterable[Input]) -> list[int]:
    """Return the edges that inputs take together."""
    edges = [one.edges for one in inputs]
    return np.unique(np.concatenate(edges)).tolist() if edges else []


def bytes_of(inputs: Iterable[Input]) -> int:
    return sum(one.size for one in inputs)


def measure(replay: Path, target: str, files: Sequence[Path]) -> list[Input]:
    """Return the inputs with their edges. One that fails is left out: it is a finding."""
    result = []
    with tempfile.TemporaryDirectory() as work:
        for file in files:
            output = Path(work, "edges")
            output.unlink(missing_ok=True)
            options = f"--target={target}", f"--program={PROGRAM}", f"--edges={output}"
            done = subprocess.run([str(replay), *options, str(file)], capture_output=True)
            if done.returncode:
                print(f"{target}: {file} fails", file=sys.stderr)
                continue
            result.append(Input(target, file, np.fromfile(output, np.uint32)[1:]))
    return result


def candidates(target: str, folder: Path) -> list[Path]:
    """Return the candidates of a target for the corpus: the tree's corpus, a campaign's seeds and
    libFuzzer's files in `corpus`."""
    folders = CORPUS / target, folder / "seeds" / target, folder / "corpus" / target
    files = [path for one in folders for path in sorted(one.glob("*"))]
    small = [path for path in files if path.stat().st_size <= LARGEST]
    first = {path.read_bytes(): path for path in reversed(small)}
    for path in others(target):
        first.pop(path.read_bytes(), None)
    return sorted(first.values())


def others(target: str) -> list[Path]:
    """Return the files of a target in the tree outside of the corpus."""
    return [path for path in kept_files(target) if not path.is_relative_to(CORPUS)]


def write(targets: Iterable[str], chosen: Iterable[Input]) -> None:
    """Make inputs the corpus of targets in the tree. Those of the corpus keep their names."""
    contents = {one.file: (one.target, one.file.read_bytes()) for one in chosen}
    for target in targets:
        shutil.rmtree(CORPUS / target, ignore_errors=True)
    for path, (target, data) in contents.items():
        kept = path.is_relative_to(CORPUS)
        name = path.name if kept else hashlib.sha256(data).hexdigest()[:12]
        (CORPUS / target).mkdir(exist_ok=True)
        (CORPUS / target / name).write_bytes(data)


def table(before: Sequence[Input], after: Sequence[Input]) -> str:
    """Return a table of Markdown: inputs, bytes and edges by target, before and after."""
    lines = [
        "| target | inputs | kept | bytes | kept | edges | kept |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for target in [*dict.fromkeys(one.target for one in before), ""]:
        cells: list[str] = []
        rows = [[one for one in row if target in (one.target, "")] for row in (before, after)]
        for count in (len, bytes_of, lambda row: len(edges_of(row))):
            cells += [f"{count(row):,}" for row in rows]
        lines.append(f"| {target or 'all'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def run(options: argparse.Namespace) -> int:
    """Replace the corpus of the tree."""
    with tempfile.TemporaryDirectory() as work:
        linked = with_xnnpack(Path(work))
    targets = [t for t in options.target or TARGETS if t != "xnnpack" or linked]
    replay = kept_build(COUNTED) / "fuzz_replay"
    inputs, fixed = [], []
    for target in targets:
        files = candidates(target, options.minimise)
        print(f"{target}: {len(files)} inputs", file=sys.stderr, flush=True)
        inputs += measure(replay, target, files)
        fixed += measure(replay, target, others(target))
    left = [CORPUS / target for target in TARGETS if target not in targets]
    room = MOST - sum(path.stat().st_size for one in left for path in one.glob("*"))
    chosen = smallest(inputs, fixed, room)
    print(table([*inputs, *fixed], [*chosen, *fixed]))
    write(targets, chosen)
    return 0
