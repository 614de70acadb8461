"""`python -m tests.verdicts`: the proof of verdicts, as a table (about an hour on two cores)."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("verdicts", "backends", "")]

import nets
import proof
import quantized


def main() -> int:
    """Print the table; return 1 if a fault was accepted or a right program rejected."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("nets", nargs="*", default=list(nets.NETS), help="architectures")
    parser.add_argument("--weights", nargs="*", default=list(proof.WEIGHTS))
    parser.add_argument("--flows", nargs="*", default=[*proof.FLOWS, *quantized.FLOWS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=4, help="faults in graphs, by flow")
    parser.add_argument("--layers", type=int, default=3, help="layers with faults in weights")
    parser.add_argument("--save", type=Path, metavar="FILE", help="append the rows, as JSON lines")
    parser.add_argument("--saved", type=Path, nargs="*", default=[], metavar="FILE",
                        help="print the table of saved rows without running anything")  # fmt: skip
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.saved:
        lines = [line for path in args.saved for line in path.read_text().splitlines()]
        rows = [proof.Row(**json.loads(line)) for line in lines]
    else:
        rows = run(args)
    print(proof.table(rows))
    return any(row.is_accepted or row.is_alarm for row in rows)


def _floats(net: str, weights: str, args: argparse.Namespace) -> Iterator[proof.Row]:
    flows = [flow for flow in args.flows if flow in proof.FLOWS]
    subject = proof.Subject(net, weights) if flows else None
    for flow in flows:
        assert subject is not None
        yield from proof.right_programs(subject, flow, 8)
        yield from proof.output_faults(subject, flow, args.seed)
        yield from proof.weight_faults(subject, flow, args.seed, args.layers)
        yield from proof.graph_faults(subject, flow, args.seed, args.graphs)
        yield from proof.stride_faults(subject, flow, args.seed)
        yield from proof.state_faults(subject, flow)


def _quantized(net: str, weights: str, args: argparse.Namespace) -> Iterator[proof.Row]:
    for flow in args.flows:
        if flow in quantized.FLOWS:
            subject = quantized.Subject(net, weights, flow)
            yield from quantized.right_programs(subject, 8)
            yield from quantized.weight_faults(subject, args.seed, args.layers)
            yield from quantized.graph_faults(subject, args.seed, args.graphs)


def run(args: argparse.Namespace) -> list[proof.Row]:
    """Return the rows of some architectures; print the unexpected ones."""
    rows: list[proof.Row] = []
    for net in args.nets:
        for weights in args.weights:
            start = time.monotonic()
            new = [*_floats(net, weights, args), *_quantized(net, weights, args)]
            for row in new:
                refused = row.kind == "right" and row.verdict != "match"
                if row.is_accepted or refused or row.named is False:
                    print(row, file=sys.stderr)
            rows += new
            if args.save:
                with args.save.open("a") as file:
                    file.writelines(json.dumps(asdict(row)) + "\n" for row in new)
            print(f"{net}, {weights}: {len(new)} rows, {time.monotonic() - start:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
    return rows


if __name__ == "__main__":
    sys.exit(main())
