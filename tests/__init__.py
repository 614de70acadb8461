"""Tests of executorch_c: see README.md.

`python -m` puts the sources first on the path. Unless the extension is built there, they go to the
end of it: they hide no installed package, and child processes find `tests`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_PLACE = any(ROOT.glob("executorch_c/_core*.so"))

if not IN_PLACE:
    others = [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT]
    if len(others) < len(sys.path):
        sys.path[:] = [*others, str(ROOT)]
