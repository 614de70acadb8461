"""An uncaught exception fails its test, in a thread or in a finalizer, too."""

import sys
from pathlib import Path

import pytest

from tests import process

CONFIG = Path(__file__).resolve().parents[1] / "pyproject.toml"
THREAD = """
import threading
def test_planted():
    def run():
        raise ValueError("planted")
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
"""
FINALIZER = """
class Planted:
    def __del__(self):
        raise ValueError("planted")
def test_planted():
    Planted()
"""
HELPER = f"""
import sys
sys.path.append({str(CONFIG.parent)!r})
from tests.at_once import run_each
def test_planted():
    def run(index):
        if index == 3:
            raise ValueError("planted")
    run_each(4, run)
"""


@pytest.mark.parametrize("code", [THREAD, FINALIZER, HELPER], ids=["thread", "finalizer", "helper"])
def test_an_uncaught_exception_fails_the_test(tmp_path: Path, code: str) -> None:
    file = tmp_path / "test_planted.py"
    file.write_text(code)
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = process.run(*command, "-c", CONFIG, file, ok=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ValueError: planted" in done.stdout and "1 failed" in done.stdout
