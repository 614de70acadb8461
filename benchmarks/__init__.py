"""Benchmarks: executorch_c beside the official runtime, in the same run. See README.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_PLACE = any(ROOT.glob("executorch_c/_core*.so"))
"""Whether the extension is built in the source tree. Otherwise an installed executorch_c is meant,
and the sources, which `python -m` puts in front of it, must not hide it."""

if not IN_PLACE:
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != ROOT]
