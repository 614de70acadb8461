"""Probes: programs with values inside a program as outputs, for devices that return outputs only.

    write_probes("model.pte", [x], "probes")       # probes.pte, input-0.bin, probes.json
    ... run probes.pte on the device ...
    blame(None, [x], program="model.pte", device=["run.npz", "probes"])
    write_probes("model.pte", [x], "probes", rounds=True)      # or one value a round
    next_probe("model.pte", "probes")              # the next, after each run on the device

A folder has a manifest, probes.json, the inputs as raw files, and programs. What a device returns
for NAME.pte stands beside it, as NAME.npz (outputs in order), NAME-0.bin, NAME-1.bin, ... (raw, as
`executor_runner --output_file=NAME` writes), or NAME.etdp with NAME.debug.bin; other runs stand in
folders of their own in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import load
from executorch_c._core import InvalidArgumentError, NotSupportedError
from executorch_c._inputs import by_name
from executorch_c._programs import ProgramFile, ProgramSource, method_of, opened
from executorch_c._render.text import listed, plural, unknown
from executorch_c._paths import read_bytes, write_bytes, write_text
from executorch_c.blame import manifest
from executorch_c.blame.device import DeviceValues, Expected, read_dump, read_runs
from executorch_c.blame.arithmetic import Allowance
from executorch_c.blame.manifest import MANIFEST, VERSION
from executorch_c.blame.locating import compare_nodes
from executorch_c.blame.replay import Replay
from executorch_c.rewrite.method import Rewritten, with_outputs
from executorch_c.rewrite.points import Computed, Dataflow, computed, left_out

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._core import Method
    from executorch_c._types import FilePath

MAX_BYTES = 256 << 20
"""Maximum bytes of new outputs in one program: of more nodes, some are left out, evenly."""
COARSE = ("bool", "int64")
"""Dtypes of conditions and positions, which a wrong source may leave as they are."""
IN_ONE = "probes"
"""Name of the program that has all outputs; rounds are round1, round2, ..."""


@dataclass(frozen=True)
class Probes:
    """A written program with probes: its files, and the values that it returns or cannot return."""

    folder: Path
    program: Path
    """The .pte to run on the device."""
    inputs: tuple[Path, ...]
    ids: tuple[str, ...]
    """Ids of the values that it returns."""
    refused: Mapping[str, str]
    """Ids of values that no program can return, and why."""

    def __str__(self) -> str:
        """Return what to do next."""
        files = ",".join(path.name for path in self.inputs)
        name = self.program.stem
        lines = [
            f"{self.program}: {plural(len(self.ids), 'value')} of {listed(self.ids)}",
            "Run it on the device with these inputs, and put what it returns beside it:",
            f"  executor_runner --model_path={name}.pte --inputs={files} --output_file={name}",
            f"({name}-0.bin, ...), or {name}.npz with the outputs in order.",
        ]
        lines += [f"not observable: {key} ({why})" for key, why in self.refused.items()]
        return "\n".join(lines)


# ---- writing ----------------------------------------------------------------------------------


def write_probes(
    program: ProgramSource,
    inputs: Sequence[object],
    folder: FilePath,
    *,
    at: Iterable[str] | None = None,
    rounds: bool = False,
    method: str = "forward",
) -> Probes:
    """Write a program to run on a device, and its inputs.

    Args:
        program: The program that ran on the device: a path or bytes, for its file is rewritten.
        inputs: The inputs of the run, flat.
        folder: Made if it is missing. What an earlier call wrote is replaced.
        at: Ids of the values that become outputs; None: all.
        rounds: Write one value a round, in the middle of all; `next_probe` writes the next. The
            program ends there, so that less of the graph that the device compiles is changed.
        method: Name of the method.

    Raises ValueError for ids that the program does not have, TypeError for a program without bytes,
    NotSupportedError if no value can be an output, and the exceptions of the run.
    """
    source = _Source(program, inputs, method)
    chosen = source.chosen(at)
    state = source.manifest([value.id for value in chosen], rounds)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if rounds:
        written = _round(source, state, source.ids)
    else:
        written = source.rewritten(_within(chosen), cut=False)
        state["programs"][IN_ONE] = source.described(written, chosen, is_cut=False)
        state["refused"].update(source.refusals(written, chosen))
    if written is None:
        raise InvalidArgumentError("none of the values can be an output")
    return _save(source, path, state, written)


def _within(values: list[Computed]) -> list[Computed]:
    """Return the values that fit in one program: all, or every second, third, ..."""
    step = 1
    while sum(value.data.nbytes for value in values[::step]) > MAX_BYTES and step < len(values):
        step += 1
    return values[::-1][::step][::-1]


class _Source:
    """A program and what it computes here."""

    def __init__(self, program: ProgramSource, inputs: Sequence[object], method: str) -> None:
        self.file: ProgramFile = opened(program)
        self.data = _bytes(self.file)
        self.name = method
        self.method: Method = method_of(self.file, method)
        self.inputs = by_name((self.method, inputs)) if isinstance(inputs, dict) else [*inputs]
        values = computed(self.file.program, self.method, self.inputs)
        self.values = {value.id: value for value in values}
        self.flow = Dataflow(self.file.program, method)
        self.ids = list(self.flow.sources)

    def chosen(self, at: Iterable[str] | None) -> list[Computed]:
        """Return values by id."""
        ids = [*self.values] if at is None else [*at]
        for one in ids:
            if one not in self.values:
                why = left_out(self.file.program, self.name, self.values).get(one)
                if why is not None:
                    raise ValueError(f"'{one}' is not observable: {why}")
                raise ValueError(f"no value of the program is {unknown(one, self.values)}")
        return [self.values[one] for one in ids]

    def manifest(self, ids: list[str], rounds: bool) -> dict[str, Any]:
        """Return a new manifest."""
        arrays = [np.asarray(one) for one in self.inputs]
        return {
            "version": VERSION,
            "program": self.file.origin.name or "program",
            "sha256": self.file.origin.sha256,
            "method": self.name,
            "inputs": [
                {"file": f"input-{i}.bin", "dtype": one.dtype.name, "shape": [*one.shape]}
                for i, one in enumerate(arrays)
            ],
            "rounds": rounds,
            "candidates": ids,
            "programs": {},
            "refused": left_out(self.file.program, self.name, self.values),
        }

    def rewritten(self, values: Sequence[Computed], cut: bool) -> Rewritten:
        points = [value.point for value in values]
        return with_outputs(self.file.program, self.data, points, self.name, cut=cut)

    def refusals(self, written: Rewritten, values: Sequence[Computed]) -> dict[str, str]:
        return {v.id: why for v, why in zip(values, written.refusals) if why}

    def described(
        self, written: Rewritten, values: Sequence[Computed], is_cut: bool
    ) -> dict[str, Any]:
        """Return what the manifest says of a program."""
        rows = []
        for value, number, step in zip(values, written.outputs, written.steps):
            if number is None:
                continue
            row = {"output": number, "id": value.id, "name": value.name}
            row |= {"dtype": value.data.dtype.name, "shape": [*value.data.shape]}
            if step is not None:
                row |= {"scale": step[0], "zero_point": step[1]}
            rows.append(row)
        return {"cut": is_cut, "outputs": rows}


def _bytes(file: ProgramFile) -> bytes:
    source = file.source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, (str, os.PathLike)):
        return read_bytes(source)
    raise TypeError("probes need the path or the bytes of a .pte")


def _save(source: _Source, folder: Path, state: dict[str, Any], written: Rewritten) -> Probes:
    name = [*state["programs"]][-1]
    write_bytes(folder / f"{name}.pte", written.data)
    for row, value in zip(state["inputs"], source.inputs):
        write_bytes(folder / row["file"], np.ascontiguousarray(np.asarray(value)).tobytes())
    write_text(folder / MANIFEST, json.dumps(state, indent=1) + "\n")
    return Probes(
        folder,
        folder / f"{name}.pte",
        tuple(folder / row["file"] for row in state["inputs"]),
        tuple(row["id"] for row in state["programs"][name]["outputs"]),
        state["refused"],
    )


# ---- rounds -----------------------------------------------------------------------------------


def _round(source: _Source, state: dict[str, Any], suspects: Sequence[str]) -> Rewritten | None:
    """Add a program to the manifest that returns the value that halves the suspects best, of those
    that can be outputs and were not; return it, None without one."""
    tried = {row["id"] for one in state["programs"].values() for row in one["outputs"]}
    before = {one: len(source.flow.before(one).intersection(suspects)) for one in suspects}
    coarse = {one for one, value in source.values.items() if value.data.dtype.name in COARSE}
    order = sorted(suspects, key=lambda one: (one in coarse, abs(before[one] - len(suspects) / 2)))
    for one in order:
        if one in tried or one in state["refused"] or one not in state["candidates"]:
            continue
        value = source.values[one]
        try:
            written = source.rewritten([value], cut=True)
        except NotSupportedError as error:
            state["refused"][one] = str(error)
            continue
        name = f"round{len(state['programs']) + 1}"
        state["programs"][name] = source.described(written, [value], is_cut=True)
        return written
    return None


@dataclass(frozen=True)
class Round:
    """What the rounds so far show."""

    suspects: tuple[str, ...]
    """Ids of the places at which the fault may be, in order. One: it is found. None: every value
    is right."""
    probes: Probes | None
    """The next program to run; None if no other value would show more."""

    def __str__(self) -> str:
        """Return what is known, and what to do next."""
        if not self.suspects:
            return "every value is right: the fault does not show in programs that end earlier"
        known = f"the device leaves at {self.suspects[0]}"
        if len(self.suspects) > 1:
            first, last = self.suspects[0], self.suspects[-1]
            known = f"the device leaves between {first} and {last} ({len(self.suspects)} results)"
        return known if self.probes is None else f"{known}\n{self.probes}"


def next_probe(program: ProgramSource, folder: FilePath) -> Round:
    """Read what a device returned for `write_probes(rounds=True)`, and write the next program.

    Each round halves the places at which the fault may be: a device error that its arithmetic
    allows before, a larger one after.

    Args:
        program: As for `write_probes`.
        folder: Where that wrote, with what the device returned so far.

    Raises ValueError for a folder without a manifest, or one of another program; FileNotFoundError
    without results; the exceptions of the run.
    """
    path = Path(folder)
    state = manifest.read(path)
    source = _Source(program, manifest.inputs(path, state), state["method"])
    if state["sha256"] != source.file.origin.sha256:
        raise ValueError(f"{path}: the probes are of another program ({state['program']})")
    suspects = _suspects(source, read_probes(path)[0])
    written = _round(source, state, suspects) if len(suspects) > 1 else None
    probes = None if written is None else _save(source, path, state, written)
    return Round(tuple(suspects), probes)


def _suspects(source: _Source, run: DeviceValues) -> list[str]:
    """Return the ids of the places at which the fault may be: what the first wrong value depends
    on, itself included, and no right value does. A value is right if it follows from the values
    before it that the device has returned; conditions and positions are right with wrong sources,
    too."""
    rows = compare_nodes(Allowance(Replay(source.file, source.inputs, source.name)), run)
    known = {row.place.id for row in rows}
    right = {row.place.id for row in rows if row.is_right and row.place.dtype not in COARSE}
    wrong = next((row.place.id for row in rows if not row.is_right), None)
    cleared = set[str]().union(*(source.flow.before(one, known) for one in right))
    found = set(source.ids) if wrong is None else source.flow.before(wrong, known)
    cleared |= {row.place.id for row in rows if row.is_right}
    return [one for one in source.ids if one in found and one not in cleared]


# ---- reading ----------------------------------------------------------------------------------


def folder_of(run: object) -> Path | None:
    """Return the path of a folder of probes; None for anything else."""
    if isinstance(run, (str, os.PathLike)) and (Path(run) / MANIFEST).is_file():
        return Path(run)
    return None


def read_probes(folder: FilePath) -> list[DeviceValues]:
    """Return what the device returned for the probes of a folder, one item a run.

    Raises ValueError for files that do not have the outputs of their program: the file, what was
    found and what was expected; FileNotFoundError without any file.
    """
    path = Path(folder)
    state = manifest.read(path)
    places = [path, *sorted(one for one in path.iterdir() if one.is_dir())]
    runs = [run for place in places for run in _runs(path, place, state)]
    if not runs:
        names = ", ".join(f"{name}.npz or {name}-0.bin" for name in state["programs"])
        raise FileNotFoundError(f"{path}: no results of the device, expected {names}")
    return runs


def _runs(folder: Path, place: Path, state: dict[str, Any]) -> list[DeviceValues]:
    """Return the runs whose files stand in one folder: rounds are parts of one run."""
    values: dict[str, Array] = {}
    outputs: tuple[Array | None, ...] = ()
    sources = []
    for name, one in state["programs"].items():
        found = _files(place, name)
        if not found:
            continue
        expected = _expected(folder, name, state)
        run = _read(found, expected)
        if any(row["output"] >= len(run.outputs) for row in one["outputs"]):
            most = plural(len(run.outputs), "output")
            raise ValueError(f"{folder / MANIFEST}: {name} has {most}, expected more")
        sources.append(run.source)
        ours = {row["output"] for row in one["outputs"]}
        for row in one["outputs"]:
            array = run.outputs[row["output"]]
            if array is not None:
                values[row["id"]] = _value(array, row)
        if not one["cut"]:
            count = len(run.outputs) - len(ours)
            outputs = run.outputs[:count]
    return [DeviceValues(", ".join(sources), outputs, values)] if sources else []


def _files(place: Path, name: str) -> list[Path]:
    """Return what a device returned for a program: one .npz or ETDump, or raw files."""
    single = [place / f"{name}.npz", place / f"{name}.etdp", place / f"{name}.etdump"]
    for path in single:
        if path.is_file():
            return [path]
    raw = re.compile(re.escape(name) + r"[-_]\d+\.bin")
    return sorted(path for path in place.iterdir() if raw.fullmatch(path.name))


def _read(files: list[Path], expected: Expected) -> DeviceValues:
    if files[0].suffix in (".etdp", ".etdump"):
        debug = files[0].with_suffix(".debug.bin")
        return read_dump(files[0], debug if debug.is_file() else None, expected, {})[0]
    (run,) = read_runs([str(path) for path in files], expected)
    return run


def _expected(folder: Path, name: str, state: dict[str, Any]) -> Expected:
    """Return the outputs of a program of the folder, as they are here."""
    program = load(folder / f"{name}.pte")
    method = program.load_method(state["method"], delegate_at_load=False)
    outputs = method.execute(manifest.inputs(folder, state))
    return Expected(tuple(f"output_{i}" for i in range(len(outputs))), tuple(outputs))


def _value(array: Array, row: Mapping[str, Any]) -> Array:
    """Return a value as the trace has it: integers of XNNPACK as what they stand for."""
    if "scale" not in row:
        return array
    exact = array.astype(np.int32) - int(row["zero_point"])
    result: Array = exact.astype(np.float32) * np.float32(row["scale"])
    return result
