"""Selection of executorch_c for `python -m tests...`: the build in the source tree if there is one,
else the installed package, which `python -m` would otherwise hide."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_PLACE = any(ROOT.glob("executorch_c/_core*.so"))


def hide_sources() -> None:
    """Move the top of the repository to the end of the path, unless the extension is built there:
    processes that `multiprocessing` starts import `tests` from it."""
    if not IN_PLACE:
        others = [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT]
        sys.path[:] = [*others, str(ROOT)]
