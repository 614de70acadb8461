"""The corpus is the smallest inputs that take the same edges."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT
from tests.fuzz import minimise
from tests.fuzz.minimise import Input


def inputs(folder: Path, *rows: tuple[str, int, list[int]]) -> list[Input]:
    """Return an input of each row: target, size in bytes, edges."""
    result = []
    for i, (target, size, edges) in enumerate(rows):
        file = folder / f"input_{i}"
        file.write_bytes(bytes(size))
        result.append(Input(target, file, np.array(edges, np.uint32)))
    return result


def names(chosen: list[Input]) -> list[str]:
    return [one.file.name for one in chosen]


def test_smallest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs whose edges smaller ones take are left out; those of another target count, too."""
    monkeypatch.setattr(minimise, "LEAST", 1)
    rows = inputs(
        tmp_path,
        ("a", 100, [1, 2, 3, 4, 5]),
        ("a", 10, [1, 2, 3]),
        ("a", 10, [4]),
        ("b", 10, [5, 6, 7]),
        ("b", 11, [3, 4, 6]),
    )
    chosen = minimise.smallest(rows)
    assert sorted(names(chosen)) == ["input_1", "input_2", "input_3"]
    assert minimise.edges_of(chosen) == [1, 2, 3, 4, 5, 6, 7]
    assert "| all | 5 | 3 | 141 | 30 | 7 | 7 |" in minimise.table(rows, chosen)


def test_each_target_has_inputs(tmp_path: Path) -> None:
    """Edges of other targets do not count for the first inputs of a target."""
    rows = inputs(tmp_path, ("a", 5, [1, 2]), ("b", 10, [1, 2]), ("b", 9, [2]))
    assert names(minimise.smallest(rows)) == ["input_0", "input_1"]


def test_edges_of_other_files_are_taken(tmp_path: Path) -> None:
    """Edges that recorded programs of the tree take need no file of the corpus."""
    rows = inputs(tmp_path, ("a", 5, [1]), ("a", 5, [1, 2]), ("a", 9, [1, 3]))
    assert names(minimise.smallest(rows[:1] + rows[2:], rows[1:2])) == ["input_2"]


def test_the_size_is_limited(tmp_path: Path) -> None:
    """The best inputs that fit stay."""
    rows = inputs(tmp_path, ("a", 60, [1]), ("a", 50, [2, 3]), ("a", 30, [4]))
    assert names(minimise.smallest(rows, most=90)) == ["input_1", "input_2"]


MAIN = """
#include "testing/fuzz_edges.h"
int main(int argc, char **argv) {
  ec_fuzz_edges_clear();
  volatile int sum = 0;
  if (argc > 2) sum++;
  for (int i = 3; i < argc; i++) sum += 2;
  ec_fuzz_edges_append(argv[1]);
  return 0;
}
"""


def test_edges_of_a_program(tmp_path: Path) -> None:
    """Runs that take the same way have the same edges, whatever their addresses are."""
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text(MAIN)
    command = ["gcc", "-O0", "-fsanitize-coverage=trace-pc", f"-I{ROOT}/csrc", str(source)]
    command += [f"{ROOT}/csrc/testing/fuzz_edges.c", "-o", str(program)]
    subprocess.run(command, check=True)
    found = []
    for number, arguments in enumerate(("", "", "x", "xx", "xxx")):
        output = tmp_path / str(number)
        subprocess.run([program, output, *arguments], check=True)
        count, *edges = np.fromfile(output, np.uint32).tolist()
        assert count == len(edges)
        found.append(set(edges))
    none, same, one, two, three = found
    assert none == same
    assert len(none) < len(one) < len(two) == len(three)
