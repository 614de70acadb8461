"""The folder of a cut: the part as a program, as a module in torch, its inputs, and a script for a
report to those who maintain the flow."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import as_array, write_arrays
from executorch_c._paths import write_bytes, write_text, writing
from executorch_c._programs import method_of
from executorch_c.check.flows import FLOWS
from executorch_c.cut import source

if TYPE_CHECKING:
    from executorch_c.cut.trial import Trial

SCRIPT = Path(__file__).with_name("repro.txt")
"""The text of repro.py."""


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Make the folder; at the end, remove a new one that is empty. Raises FileExistsError if there
    is something in it."""
    is_new = not folder.exists()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(17, "expected a new or empty folder", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def write(folder: Path, trial: Trial, flow: object, title: str) -> None:
    """Write the files of a trial."""
    import torch

    write_bytes(folder / "cut.pte", trial.program)
    write_text(folder / "module.py", trial.text)
    write_arrays(folder / "inputs.npz", "input", [as_array(one) for one in trial.samples[0]])
    samples = [list(sample) for sample in trial.samples]
    for name, value in (("samples", samples), ("weights", source.constants_of(trial.part))):
        with writing(folder / f"{name}.pt", "wb") as file:
            torch.save(value, file)
    write_text(folder / "repro.py", _script(trial, flow, title))


def _script(trial: Trial, flow: object, title: str) -> str:
    first = trial.reports[0].first
    noise = first.judged.limit if first is not None else None
    fault, noise = _error(trial), noise if noise and math.isfinite(noise) else 1e-6
    limit = math.sqrt(noise * fault) if math.isfinite(fault) and fault > noise else noise
    name = flow if isinstance(flow, str) else getattr(flow, "__name__", "a function")
    return Template(SCRIPT.read_text(encoding="utf-8")).substitute(
        title=title,
        versions=", ".join(f"{one} {version(one)}" for one in ("torch", "executorch")),
        flow=name,
        limit=f"{limit:.3g}",
        noise=f"{noise:.2g}",
        fault=f"{fault:.2g}",
        partitioners=partitioners_text(flow) or "partitioners = None",
        otherwise=_otherwise(flow, name),
        needs=_needs(flow),
    )


def _needs(flow: object) -> str:
    """Return what `repro.py --export` needs besides torch and executorch."""
    return "" if partitioners_text(flow) or not isinstance(flow, str) else "; executorch_c, too"


def _otherwise(flow: object, name: str) -> str:
    """Return how repro.py lowers by a flow that is more than partitioners."""
    if not isinstance(flow, str):
        return f'raise SystemExit("the flow is a function, {name}: call it here")'
    return (
        "from executorch_c.check.by_flow import lowered\n\n"
        f'        return lowered("{name}", torch.export.export(module, tuple(inputs)))'
    )


def _error(trial: Trial) -> float:
    """Return the largest relative error of the outputs on the failing call's values; infinity for
    a program that fails."""
    import torch

    inputs = trial.samples[0]
    module: Callable[..., Any] = trial.exported.module()
    try:
        outputs = method_of(trial.program).execute([as_array(one) for one in inputs])
    except RuntimeError:
        return math.inf
    with torch.no_grad():
        expected = module(*inputs)
    wanted: Sequence[Any] = expected if isinstance(expected, (list, tuple)) else [expected]
    sizes = [math.inf]
    for ours, theirs in zip(outputs, wanted):
        mine = torch.from_numpy(as_array(ours).astype("float64"))
        if mine.shape == theirs.shape:
            norm = float(theirs.double().norm()) or 1.0
            sizes.append(float((mine - theirs.double()).norm()) / norm)
    return max(sizes[1:], default=math.inf)


def partitioners_text(flow: object) -> str | None:
    """Return the function that makes a flow's partitioners, as Python that needs executorch alone;
    None for flows that do more."""
    row = FLOWS.get(flow) if isinstance(flow, str) else None
    if row is None or row.lower is not None:
        return None
    used = inspect.getclosurevars(row.partitioners)
    if used.globals or not all(isinstance(value, str) for value in used.nonlocals.values()):
        return None
    text = textwrap.dedent(inspect.getsource(row.partitioners))
    text = re.sub(r"def \w+\((.*?)\)[^\n]*:\n", r"def partitioners(\1):\n", text, count=1)
    values = [f"{name} = {value!r}\n" for name, value in used.nonlocals.items()]
    return "".join([*values, "\n\n" if values else "", text.rstrip()])
