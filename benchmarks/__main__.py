"""`python -m benchmarks [AREA ...]`: run the benchmarks and write results/areas.md.

`python -m benchmarks compare` has options of its own (compare.py).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks import common

AREAS = (
    "startup",
    "load",
    "large",
    "overhead",
    "trace",
    "models",
    "operators",
    "xnnpack",
    "busy",
    "roofline",
    "sizes",
    "llm",
    "interpreted",
    "eager",
    "verdict",
)
RESULTS = Path(__file__).parent / "results" / "areas.md"


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--quick", action="store_true", help="few rounds, to try it out")
    parser.add_argument(
        "--output", type=Path, help="default: results/areas.md, if all areas are run"
    )
    args = parser.parse_args()
    unknown = set(args.areas) - set(AREAS)
    if unknown:
        parser.error(f"no area {', '.join(sorted(unknown))}: there are {', '.join(AREAS)}")
    quick = " Few rounds (--quick)." if args.quick else ""
    parts = [common.paragraph(common.environment() + quick)]
    print(parts[0])
    for area in args.areas or AREAS:
        table = importlib.import_module(f"benchmarks.bench_{area}").measure(args.quick)
        parts.append(table.markdown())
        print("\n" + parts[-1], flush=True)
    if args.output or not args.areas:
        (args.output or RESULTS).write_text("# Results\n\n" + "\n\n".join(parts) + "\n")


if sys.argv[1:2] == ["compare"]:
    from benchmarks import compare

    compare.main(sys.argv[2:])
else:
    main()
