"""Which executorch_c `python -m tests...` means: the one that is built in the sources, else the
installed one, which the sources, that `python -m` puts in front of it, must not hide."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_PLACE = any(ROOT.glob("executorch_c/_core*.so"))


def hide_sources() -> None:
    """Takes the top of the repository off the path, unless the extension is built there."""
    if not IN_PLACE:
        sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT]
