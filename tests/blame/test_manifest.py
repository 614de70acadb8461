"""Damaged manifests of probes: one error each, with the name of the file."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Error
from executorch_c.blame.manifest import MANIFEST
from executorch_c.blame.probes import next_probe, read_probes, write_probes
from tests.plans import adding, build

X = np.ones(4, np.float32)
WILD: tuple[Any, ...] = (
    *(None, True, -1, 1 << 40, 1.5, "", "x", "../a", "a\0b", "a\nverdict: match"),
    *([], {}, [[]], [-1], {"a": 1}, "O", "float32"),
)
"""Values in place of others."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.pte").write_bytes(build(adding(3)[0]))
    write_probes(tmp_path / "m.pte", [X], tmp_path / "probes", rounds=True)
    np.savez(tmp_path / "probes" / "round1.npz", output_0=X)
    return tmp_path / "probes"


def changed(value: Any) -> Iterator[Any]:
    """Yield copies of a value with one part replaced or missing."""
    yield from WILD
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: one for name, one in value.items() if name != key}
            yield from ({**value, key: one} for one in changed(inner))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield value[:i] + value[i + 1 :]
            yield from (value[:i] + [one] + value[i + 1 :] for one in changed(inner))


def test_one_wrong_field(folder: Path) -> None:
    good = json.loads((folder / MANIFEST).read_text())
    counts = {True: 0, False: 0}
    for state in changed(copy.deepcopy(good)):
        (folder / MANIFEST).write_text(json.dumps(state))
        try:
            read_probes(folder)
            counts[True] += 1
        except (ValueError, OSError, Error) as error:
            if not isinstance(error, Error):  # the method takes other inputs
                assert str(folder) in str(error), (state, error)
            counts[False] += 1
    assert counts[False] > 150 and counts[True] > 10, counts


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[" * 100_000, "recursion"),
        ("9" * 10_000, "digits|is a int"),
        ('{"version": 2}', "version 2, expected 1"),
        ("[]", "manifest is a list"),
        ("{}", "version None, expected 1"),
        ("", "Expecting value"),
    ],
)
def test_other_texts(folder: Path, text: str, match: str) -> None:
    (folder / MANIFEST).write_text(text)
    for read in (lambda: read_probes(folder), lambda: next_probe(folder.parent / "m.pte", folder)):
        with pytest.raises(ValueError, match=f"{MANIFEST}: not a manifest of probes .*{match}"):
            read()


def test_files_outside_of_the_folder_are_not_read(folder: Path) -> None:
    state = json.loads((folder / MANIFEST).read_text())
    state["inputs"][0]["file"] = "../input-0.bin"
    (folder / MANIFEST).write_text(json.dumps(state))
    with pytest.raises(ValueError, match="'../input-0.bin' is not the name of a file in the"):
        read_probes(folder)


def test_a_program_without_a_file(tmp_path: Path) -> None:
    """Probes of a program in memory are read again."""
    folder = tmp_path / "probes"
    write_probes(build(adding(3)[0]), [X], folder, rounds=True)
    np.savez(folder / "round1.npz", output_0=X)
    assert read_probes(folder)
