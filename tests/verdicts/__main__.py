"""`python -m tests.verdicts`: the proof of verdicts, flow by flow, as tables.

A unit is an architecture with its weights in one flow. With `--save FILE`, the rows of each
finished unit are appended, and units that are in the file are not run again: a stopped run
continues with the same command. `--count N` is done with a flow once it has N right outputs and N
counted faults.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from executorch_c.check import flows
from tests import exporter_speed
from tests.models import nets
from tests.verdicts import proof, quantized, rates

ORDER = (*proof.FLOWS, *quantized.FLOWS)
FIRST = ("mlp", "cancelling", "ties", "long_sequence", "deep", "gpt_masked_logit", "autoencoder")
"""Small architectures, which `--count` runs first."""


def _parser() -> argparse.ArgumentParser:
    names = [*FIRST, *(name for name in nets.NETS if name not in FIRST)]
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("nets", nargs="*", default=names, help="architectures")
    parser.add_argument("--weights", nargs="*", default=list(proof.WEIGHTS))
    parser.add_argument("--flows", nargs="*", default=list(ORDER), choices=ORDER, metavar="FLOW")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=8, help="calls of each right program")
    parser.add_argument("--damaged", type=int, default=1, help="calls with damaged outputs")
    parser.add_argument("--graphs", type=int, default=4, help="faults in graphs, by unit")
    parser.add_argument("--layers", type=int, default=3, help="layers with faults in weights")
    parser.add_argument(
        "--parts", type=int, default=1, help="parts of a quantised layer, damaged one by one"
    )
    parser.add_argument(
        "--named",
        type=int,
        default=1,
        metavar="N",
        help="ask explain for one fault in N in quantised weights",
    )
    parser.add_argument("--count", type=int, help="right outputs and counted faults of a flow")
    parser.add_argument("--save", type=Path, metavar="FILE", help="append the rows, as JSON lines")
    parser.add_argument(
        "--saved",
        type=Path,
        nargs="*",
        default=[],
        metavar="FILE",
        help="print the tables of saved rows without running anything",
    )
    return parser


def main() -> int:
    """Print the tables; return 1 if a fault was accepted or a right program rejected."""
    args = _parser().parse_args()
    warnings.simplefilter("ignore")
    exporter_speed.keep_imports()
    exporter_speed.apply()
    saved = args.saved or [path for path in (args.save,) if path and path.exists()]
    rows = [row for path in saved for row in _read(path)]
    if not args.saved:
        run(args, rows)
    print(proof.table(rows))
    print(f"\n{rates.table(rows, ORDER)}\n\n{rates.not_run(rows)}")
    return any(row.is_accepted or row.is_alarm for row in rows)


def _read(path: Path) -> list[proof.Row]:
    return [proof.Row(**json.loads(line)) for line in path.read_text().splitlines()]


def _unit(args: argparse.Namespace, subject: proof.Subject, flow: str) -> Iterator[proof.Row]:
    yield from proof.right_programs(subject, flow, args.calls)
    yield from proof.output_faults(subject, flow, args.seed, args.damaged)
    yield from proof.weight_faults(subject, flow, args.seed, args.layers)
    yield from proof.graph_faults(subject, flow, args.seed, args.graphs)
    if args.graphs:
        yield from proof.stride_faults(subject, flow, args.seed)
    yield from proof.state_faults(subject, flow)
    yield from proof.cache_faults(subject, flow, args.damaged)


def _quantized(args: argparse.Namespace, net: str, weights: str, flow: str) -> Iterator[proof.Row]:
    subject = quantized.Subject(net, weights, flow)
    if subject.check(subject.data)[0] == "refused":
        raise ValueError("this runtime refuses the flow's program")
    yield from quantized.right_programs(subject, args.calls)
    yield from quantized.weight_faults(subject, args.seed, args.layers, args.parts, args.named)
    yield from quantized.graph_faults(subject, args.seed, args.graphs)


def _is_done(rows: Sequence[proof.Row], flow: str, count: int | None) -> bool:
    """Return True if a flow has `count` right outputs and counted faults."""
    mine = [row for row in rows if row.flow == flow]
    right = sum(row.kind == "right" for row in mine)
    return count is not None and min(right, sum(row.counts for row in mine)) >= count


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:90]}"


def run(args: argparse.Namespace, rows: list[proof.Row]) -> None:
    """Run the units that have no rows, and append their rows; print the unexpected ones."""
    known = {(row.net, row.weights, row.flow) for row in rows}
    for net in args.nets:
        for weights in args.weights:
            subject: proof.Subject | None = None
            for flow in args.flows:
                is_half = flow in quantized.FLOWS and weights in proof.HALVES
                done = (net, weights, flow) in known or _is_done(rows, flow, args.count)
                if done or is_half or not flows.FLOWS[flow].is_installed:
                    continue
                start = time.monotonic()
                try:
                    if (net, flow) in proof.CHANGED:
                        raise ValueError(proof.CHANGED[net, flow])
                    if flow in proof.FLOWS and subject is None:
                        subject = proof.Subject(net, weights)
                    new = list(
                        _unit(args, subject, flow)
                        if flow in proof.FLOWS and subject
                        else _quantized(args, net, weights, flow)
                    )
                except Exception as error:  # the flow does not take the model
                    new = [proof.Row(net, weights, flow, "not run", _reason(error), 0.0, "")]
                rows += new
                _report(
                    args.save,
                    new,
                    f"{flow}: {net}, {weights}: {len(new)} rows, {time.monotonic() - start:.0f} s",
                )


def _report(save: Path | None, rows: Sequence[proof.Row], progress: str) -> None:
    """Save the rows of a unit, and print its unexpected ones and the progress."""
    for row in rows:
        refused = row.kind == "right" and row.verdict != "match"
        if row.is_accepted or refused or row.named is False or row.kind == "not run":
            print(row, file=sys.stderr)
    if save:
        with save.open("a") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
    print(progress, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
