"""Benchmarks: executorch_c compared with the official runtime, in the same run. See README.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_PLACE = any(ROOT.glob("executorch_c/_core*.so"))
"""True if the extension is built in the source tree. Otherwise the installed executorch_c is used,
which the source tree on the path of `python -m` must not hide."""

if not IN_PLACE:
    others = [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT]
    sys.path[:] = [*others, str(ROOT)]
