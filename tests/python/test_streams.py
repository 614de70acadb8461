"""Commands whose output nobody reads (`| true`, `> /dev/full`, `>&-`) keep verdict and files."""

import io
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest

from executorch_c import _streams, cli
from executorch_c._commands import generate
from tests.exports import export
from tests.llm import small_llm
from tests.python import digits
from tests.suite.rows import result, row

MODEL = """
import torch

def make():
    torch.manual_seed(1)
    return torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),)
"""
COMMANDS = {
    "run": ("run digits.pte --output y.npz", 0),
    "info": ("info digits.pte --json", 0),
    "dump": ("dump digits.pte", 0),
    "graph": ("graph digits.pte", 0),
    "memory": ("memory digits.pte --chrome m.json", 0),
    "validate": ("validate digits.pte --inputs x.npz --expect bad.npz --html v.html", 3),
    "check": ("check pair.pte --model model.py:make --random 1 --html c.html --output c.json", 3),
    "check-all": (
        "check-all --merge part.json --html a.html --junit a.xml --markdown a.md --gitlab g.json",
        3,
    ),
    "compare": ("compare pair.pte other.pte --html p.html", 3),
    "explain": ("explain pair.pte --model model.py:make --html e.html", 3),
    "blame": ("blame digits.pte --inputs x.npz --device bad.npz --html b.html", 3),
    "quantization-error": ("quantization-error pair.pte --model model.py:make", 0),
    "advise": ("advise no.py:make --flow xnnpack-int8 --target 30dB --html w.html", 1),
    "check-nan": ("check-nan digits.pte --inputs nan.npz --html n.html", 3),
    "trace": ("trace digits.pte --chrome t.json --csv t.csv --etdump t.etdp", 0),
    "bench": ("bench digits.pte --threads 1 --min-time 0.01 --html b.html", 0),
    "etdump": ("etdump run.etdp --html d.html", 0),
    "generate": ("generate llm.pte --ids 5,6 --max-new-tokens 2 --json", 0),
    "perplexity": ("perplexity llm.pte --ids 5,6,7,8", 0),
    "operators": ("operators", 0),
    "selective": ("selective no.pte -o small", 1),
    "demo": ("demo", 0),
}
"""A call of each command and its exit code."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("streams")
    shutil.copy(digits.DIGITS, folder / "digits.pte")
    shutil.copy(small_llm.program(), folder / "llm.pte")
    for seed, name in enumerate(("pair.pte", "other.pte")):
        torch.manual_seed(seed + 2)
        (folder / name).write_bytes(export(torch.nn.Linear(3, 2), torch.ones(4, 3)))
    (folder / "model.py").write_text(MODEL)
    result(row(verdict="differ")).save(folder / "part.json")
    np.savez(folder / "x.npz", x=digits.IMAGES)
    np.savez(folder / "nan.npz", x=np.full_like(digits.IMAGES, np.nan))
    np.savez(folder / "bad.npz", y=digits.EXPECTED + 1)
    assert cli.main(["trace", str(digits.DIGITS), "--etdump", str(folder / "run.etdp")]) == 0
    return folder


class Text(io.StringIO):
    """A stream whose text outlives its end."""

    def close(self) -> None: ...


def without_reader() -> TextIO:
    """Return the end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w")


SINKS: dict[str, Callable[[], TextIO | None]] = {
    "all": Text,
    "pipe": without_reader,
    "full": lambda: open("/dev/full", "w"),
    "closed": lambda: None,
}


def run(line: str, out: TextIO | None, err: TextIO | None) -> int:
    """Return the exit code of a command line with these as standard output and error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = cli.main(line.split())
    for stream in (out, err):
        if stream is not None:
            stream.close()  # raises if it holds a text that it cannot write
    return code


def test_commands() -> None:
    assert list(COMMANDS) == [*map(cli.name_of, cli.COMMANDS)]


@pytest.mark.parametrize("name", COMMANDS)
def test_files_and_exit_code(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    line, expected = COMMANDS[name]
    before, written = set(folder.iterdir()), None
    for kind, sink in SINKS.items():
        errors = Text() if kind in ("all", "full") else sink()
        out = sink()
        assert run(line, out, errors) == expected, (kind, errors)
        files = {path.name: path.stat().st_size for path in set(folder.iterdir()) - before}
        for path in files:
            (folder / path).unlink()
        written = set(files) if written is None else written
        assert set(files) == written and all(files.values()), kind
        if kind == "full" and expected != 1:
            assert "standard output: No space left on device\n" in errors.getvalue()


def test_generate_stops_without_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", without_reader())
    with _streams.outputs(), pytest.raises(BrokenPipeError):
        generate.write(itertools.repeat("word "), quiet=False)
    sys.stdout.close()


def test_a_reader_that_stops(folder: Path) -> None:
    """In a process of its own: standard error stays empty at its exit, too."""
    line = f"{sys.executable} -m executorch_c validate digits.pte --inputs x.npz --expect bad.npz"
    done = subprocess.run(
        ["bash", "-c", f"{line} | true; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (3, "")
