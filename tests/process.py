"""Child processes of tests: their output is text, their failure is the test's."""

import subprocess
import sys
from typing import Any


def run(*command: object, ok: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output; assert its success, unless `ok` is False."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, capture_output=True, text=True, check=False, **options)
    assert not ok or done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done


def python(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run this Python as `run` does."""
    return run(sys.executable, *arguments, **options)
