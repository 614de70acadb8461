"""Programs of all releases run here: equal to eager's outputs, and to the bits of today."""

import json
from pathlib import Path

import pytest

from tests.release import golden
from tests.release.changes import Change, Known
from tests.release.export_programs import ROWS
from tests.release.programs import Program, refusals

PROGRAMS = golden.kept()
KNOWN = Known.here()


@pytest.mark.parametrize("program", PROGRAMS, ids=golden.key)
def test_a_program_of_a_release_runs(program: Program) -> None:
    """reviewed.tsv lists programs that the release itself exported wrongly."""
    release, fault = program.path.parent.name, program.fault()
    reviewed = KNOWN.reason(Change("programs", program.name, "fault"), release)
    assert bool(fault) == bool(reviewed), fault


def test_the_bits_are_those_of_the_table() -> None:
    """Renewed by `python -m tests.release.golden --renew`: see README.md."""
    assert golden.digests() == json.loads(golden.BITS.read_text())


@pytest.mark.parametrize("release", golden.releases())
def test_each_row_is_kept_or_refused_by_the_release(release: str) -> None:
    folder = golden.FOLDER / release
    names = {program.name for program in PROGRAMS if program.path.parent == folder}
    assert names | set(refusals(folder)) == {name for name in ROWS if golden.is_due(name, release)}


def test_programs_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "FOLDER", tmp_path / "golden")
    golden.FOLDER.mkdir()
    for name in ("mlp.pte", "mlp.npz", "mlx_mlp.pte"):
        (tmp_path / name).write_bytes(b"first")
    golden.keep(tmp_path, "1.4.1")
    (tmp_path / "mlp.pte").write_bytes(b"again")
    (tmp_path / "cnn.error").write_text("no")
    golden.keep(tmp_path, "1.4.1")
    kept = golden.FOLDER / "1.4.1"
    assert {path.name for path in kept.iterdir()} == {"mlp.pte", "mlp.npz", "cnn.error"}
    assert (kept / "mlp.pte").read_bytes() == b"first"
    assert golden.is_due("mlx_mlp", "1.10.0")


def test_the_files_are_small() -> None:
    assert sum(path.stat().st_size for path in golden.FOLDER.rglob("*")) < 4e6
