"""The cache of the tests: one maker, no half-made files, names by content."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from tests import kept


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXECUTORCH_C_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make(log: Path) -> bytes:
    """Leave a line with each call, slowly."""
    with log.open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(0.2)
    return b"content"


def want(log: Path) -> None:
    assert kept.data("one", lambda: make(log)) == b"content"


def test_one_process_makes_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [
        multiprocessing.get_context("fork").Process(target=want, args=[log]) for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(log.read_text().splitlines()) == 1


def test_what_fails_is_not_kept(cache: Path) -> None:
    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise ValueError

    with pytest.raises(ValueError):
        kept.file("one", fails)
    assert not (cache / "one").exists()
    assert kept.data("one", lambda: b"whole") == b"whole"
    assert kept.data("one", lambda: b"another") == b"whole"


def test_a_folder(cache: Path) -> None:
    def write(path: Path) -> None:
        path.mkdir()
        (path / "file").write_text("text")

    assert kept.file("in/it", write) == cache / "in" / "it"
    assert (cache / "in" / "it" / "file").read_text() == "text"


def test_digests_are_of_the_content(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text("a = 1")
    before = kept.digest(source, 3, packages=("numpy",))
    assert before == kept.digest(source, 3, packages=("numpy",))
    assert len({before, kept.digest(source, 4, packages=("numpy",)), kept.digest(source, 3)}) == 3
    source.write_text("a = 2")
    assert kept.digest(source, 3, packages=("numpy",)) != before
