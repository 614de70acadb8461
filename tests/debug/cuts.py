"""Failing programs cut to a few nodes: how many keep their fault, in how many nodes and seconds.

`python -m tests.debug.cuts [--kind flow|constant] [--count N] [--offset N]` prints a row for each
program, and the figures of `results/cuts.md`.

A program fails by a bug of its flow (`flow_bugs.py`), which also lowers the part, or by a constant
or an attribute (an epsilon, an axis, a scale) of its file, which the flow makes rightly. A cut
counts if its program differs from its module on samples, and the program that the flow without the
bug makes of the same module does not.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from executorch_c import devtools
from executorch_c.check import by_flow, flows
from tests.backends import planted
from tests.debug import flow_bugs
from tests.models import flow_models
from tests.models.blocks import Llama

MODELS = ("mobilenet", "transformer", "unet", "mlp", "cnn", "lstm", "llama", "mlp-dynamic")
FLOWS = ("xnnpack", "portable", "vulkan", "xnnpack-int8", "coreml", "native", "mlx", "tosa")
QUANTIZED = ("xnnpack-int8", "vulkan-int8", "openvino-int8")
CONSTANT_FLOWS = (
    "xnnpack",
    "portable",
    "xnnpack-int8",
    "vulkan",
    "coreml",
    "mlx",
    "native",
    "tosa",
)
ATTRIBUTE_FLOWS = ("portable", "xnnpack", "vulkan", "tosa", "mlx")
SECONDS = 600.0
"""Time of a search: what counts is that of the processor, on a machine that others use."""
DYNAMIC = "-dynamic"
"""Ends the name of a model that is exported with any number of rows."""


@dataclass(frozen=True)
class Case:
    """A failing program."""

    kind: str
    """"flow", "constant" or "attribute"."""
    fault: str
    model: str
    flow: str


@dataclass(frozen=True)
class Outcome:
    """A cut of it."""

    case: Case
    result: Any
    is_kept: bool
    """True if the part differs, and what the right flow makes of its module does not."""
    cpu: float
    """Processor seconds of this process for `explain` and the cut."""

    def row(self) -> str:
        r = self.result
        return (
            f"| {self.case.kind} | {self.case.fault} | {self.case.model} | {self.case.flow} | "
            f"{'yes' if self.is_kept else r.reason or 'no'} | {r.size} of {r.whole} | {r.shown} | "
            f"{r.official} | {r.tried} | {r.seconds:.0f} | {self.cpu:.0f} |"
        )


def cases() -> Iterator[Case]:
    """Yield all combinations; those to which a fault does not apply are left out by `outcome`."""
    for i, (fault, model) in enumerate(itertools.product(flow_bugs.BUGS, MODELS)):
        names = QUANTIZED if fault in flow_bugs.QUANTIZED else FLOWS
        yield Case("flow", fault, model, names[i % len(names)])
    for i, (fault, model) in enumerate(itertools.product(planted.WEIGHTS, MODELS)):
        yield Case("constant", fault, model, CONSTANT_FLOWS[i % len(CONSTANT_FLOWS)])
    for i, (fault, model) in enumerate(itertools.product(flow_bugs.ATTRIBUTES, MODELS)):
        for flow in QUANTIZED[:2] if fault in flow_bugs.QUANTIZED else ATTRIBUTE_FLOWS:
            yield Case("attribute", fault, model, flow)


def made(name: str) -> tuple[Any, list[Any], Any]:
    """Return a model, its inputs and the dynamic shapes of its export."""
    if name == "llama":
        torch.manual_seed(0)
        model = Llama().eval()
        return model, [torch.randint(60, (1, 7)) for _ in range(2)], None
    base = name.removesuffix(DYNAMIC)
    shapes = ({0: torch.export.Dim("rows", min=2, max=8)},) if base != name else None
    return *flow_models.make(base), shapes


def outcome(case: Case, folder: Path) -> Outcome | None:
    """Cut a case; None if its fault has no place in the model."""
    model, inputs, shapes = made(case.model)
    if shapes is not None and flows.FLOWS[case.flow].is_static:
        return None
    options = {"folder": folder, "flow": case.flow, "dynamic_shapes": shapes}
    options |= {"progress": False, "seconds": SECONDS}
    if case.flow in QUANTIZED and not _matches(case.flow, model, inputs[0]):
        return None
    start = time.process_time()
    with torch.no_grad():
        if case.kind != "flow":
            result = _of_file(case, model, inputs, options)
        else:
            with flow_bugs.planted(case.flow, case.fault) as counts:
                try:
                    result = devtools.cut(model, (inputs[0],), **options)
                except ValueError as error:
                    if "matches its model" in str(error) or not any(counts):
                        return None
                    raise
    if result is None:
        return None
    cpu = time.process_time() - start
    return Outcome(case, result, result.ok and _is_right(case.flow, folder), cpu)


def _matches(flow: str, model: Any, x: Any) -> bool:
    """Return True if a flow makes a right program of a model."""
    made = by_flow.make(model, (x,), flow, progress=False)
    program: Any = made.subject.opened
    report = devtools.explain(made.reference, (x,), program=program, progress=False)
    return report.verdict == "match"


def wrong_file(case: Case, model: Any, inputs: list[Any], shapes: Any = None) -> Any:
    """Return what a flow that is right lowers, and a program with a wrong constant or attribute;
    None if the fault has no place."""
    made = by_flow.make(model, (inputs[0],), case.flow, dynamic_shapes=shapes, progress=False)
    if case.kind == "attribute":
        wrong, count = flow_bugs.changed(made.reference, flow_bugs.ATTRIBUTES[case.fault], most=1)
        if not count:
            return None
    else:
        try:
            wrong, _ = planted.plant(made.reference, (case.fault,), 1, inputs[:2])
        except LookupError:
            return None
    return made.reference, by_flow.lowered(case.flow, wrong)


def _of_file(case: Case, model: Any, inputs: list[Any], options: dict[str, Any]) -> Any:
    """Cut a program with a wrong constant or attribute."""
    shapes = options.pop("dynamic_shapes")
    found = wrong_file(case, model, inputs, shapes)
    if found is None:
        return None
    reference, program = found
    try:
        return devtools.cut(reference, (inputs[0],), program=program, **options)
    except ValueError as error:
        if "matches its model" in str(error):
            return None
        raise


def _is_right(flow: str, folder: Path) -> bool:
    """Return True if the cut differs on a sample, and the flow makes a right program of it."""
    names: dict[str, Any] = {}
    exec((folder / "module.py").read_text(), names)
    module = names["Cut"]().eval()
    module.load_state_dict(torch.load(folder / "weights.pt", weights_only=True))
    samples = torch.load(folder / "samples.pt", weights_only=True)
    exported = torch.export.export(module, tuple(samples[0]))
    right, cut = by_flow.lowered(flow, exported), (folder / "cut.pte").read_bytes()
    verdicts = [
        devtools.explain(exported, samples[0], program=program, progress=False).verdict
        for program in (right, cut)
    ]
    return verdicts == ["match", "differ"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("flow", "constant", "attribute"))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--offset", type=int, default=0, help="every case from this one on, by 7")
    args = parser.parse_args()
    rows = [case for case in cases() if args.kind in (None, case.kind)]
    order = [rows[(args.offset + 7 * i) % len(rows)] for i in range(len(rows))]
    done: list[Outcome] = []
    for case in dict.fromkeys(order):
        if not flows.FLOWS[case.flow].is_installed or len(done) >= args.count:
            continue
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            try:
                one = outcome(case, Path(folder) / "cut")
            except Exception as error:
                print(f"{case}: {type(error).__name__}: {error}", flush=True)
                continue
        if one is not None:
            done.append(one)
            print(one.row(), f"{time.monotonic() - start:.0f} s", flush=True)
    kept = [one for one in done if one.is_kept]
    print(
        f"{len(kept)} of {len(done)} keep the fault; operators: median "
        f"{statistics.median(one.result.size for one in kept)}, most "
        f"{max(one.result.size for one in kept)}; seconds: median "
        f"{statistics.median(one.result.seconds for one in done):.0f}, most "
        f"{max(one.result.seconds for one in done):.0f}; of the processor: median "
        f"{statistics.median(one.cpu for one in done):.0f}, most {max(o.cpu for o in done):.0f}"
    )


if __name__ == "__main__":
    main()
