"""Seeds from tests: every program that test files load is written to a folder.

`record(files, folder)` runs the files with this module as a plug-in of pytest, which stands between
the tests and `executorch_c.Runtime`.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = "EXECUTORCH_C_RECORD_PROGRAMS"
HERE = Path(__file__).parent


class Recorder:
    """The runtime, which writes the bytes of each program before it loads them."""

    def __init__(self, runtime: Any, folder: Path) -> None:
        self.runtime, self.folder = runtime, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runtime, name)

    def load_program(self, source: Any, *args: Any, **options: Any) -> Any:
        if isinstance(source, bytes):
            (self.folder / hashlib.sha256(source).hexdigest()[:16]).write_bytes(source)
        return self.runtime.load_program(source, *args, **options)


def record(files: Sequence[str], folder: Path, *options: str) -> None:
    """Run files of tests, whose failures do not matter, and keep their programs."""
    environment = {**os.environ, FOLDER: str(folder.absolute())}
    command = [sys.executable, "-m", "pytest", "-q", "-p", __name__, *options, *files]
    subprocess.run(
        command, cwd=HERE.parents[1], env=environment, stdout=subprocess.DEVNULL, check=False
    )


def pytest_configure() -> None:
    import executorch_c

    real, folder = executorch_c.Runtime, Path(os.environ[FOLDER])

    class Runtime:
        @staticmethod
        def get() -> Any:
            return Recorder(real.get(), folder)

    executorch_c.Runtime = Runtime  # type: ignore[misc, assignment]
