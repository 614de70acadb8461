"""Turns: engines call one after the other, so that other load on the machine affects all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._core import Error
from executorch_c._engines import untimed
from executorch_c._programs import opened
from executorch_c._render import text as _text
from executorch_c.bench.child import Child, Failed
from executorch_c.bench.engines import ENGINES, Engine, Task, rival_of
from executorch_c.bench.report import BenchReport, Measured, ratio_interval
from executorch_c.compare.metrics import rms
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._types import FilePath

ROUNDS = 10
"""Turns of each engine."""


@dataclass(frozen=True)
class Entry:
    """An engine with what it loads."""

    title: str
    engine: Engine
    task: Task


def bench(
    programs: Sequence[FilePath] | FilePath,
    inputs: Sequence[Any],
    *,
    method: str = "forward",
    data_path: Sequence[FilePath] | FilePath | None = None,
    rivals: Sequence[str] = (),
    model: str | None = None,
    threads: Sequence[int] | int = (),
    min_time: float = 2.0,
    concurrency: int = 1,
    progress: bool | None = None,
) -> BenchReport:
    """Return the call times of programs, each in its own process, in turns.

    Args:
        programs: Paths of programs; ratios are those to the first.
        inputs: Inputs of a call, of all engines: arrays and numbers.
        method: Name of the method.
        data_path: Files of weights (.ptd) of the programs.
        rivals: Other engines: "official" and "eager" (of `model`), "onnxruntime:m.onnx",
            "openvino:m.onnx", "litert:m.tflite".
        model: "file.py:function", which returns the model of "eager".
        threads: Numbers of threads, measured one after the other. Default: the CPUs of the process.
        min_time: Seconds of calls of each engine, at each number of threads.
        concurrency: Number of calls at once whose calls per second are measured, too; above 1.
        progress: Whether to show progress on stderr. Default: on a terminal.

    An engine that fails is a row with its error. Raises ValueError for an unknown rival or an
    argument out of range, ImportError for a rival that is not installed.
    """
    counts = [threads] if isinstance(threads, int) else [*threads]
    counts = counts or [len(os.sched_getaffinity(0))]
    if min(counts) < 1 or concurrency < 1 or not 0 < min_time < float("inf"):
        raise ValueError(
            f"threads {counts}, concurrency {concurrency}, min_time {min_time}: expected positive "
            "numbers"
        )
    paths = [programs] if isinstance(programs, (str, os.PathLike)) else [*programs]
    if not paths:
        raise ValueError("`programs` is empty")
    data = [data_path] if isinstance(data_path, (str, os.PathLike)) else [*(data_path or ())]
    task = Task("", tuple(inputs), 1, method, tuple([os.fspath(path) for path in data]))
    entries = _entries([os.fspath(path) for path in paths], rivals, model, task)
    rows: list[Measured] = []
    with Progress("bench", progress) as shown:
        for count in counts:
            rows += _measured(entries, count, min_time, concurrency, shown)
    return BenchReport(tuple(rows), min_time, notes=_notes(paths, data, method))


def _notes(paths: Sequence[FilePath], data: Sequence[FilePath], method: str) -> tuple[str, ...]:
    """Return a sentence for each backend whose times are not those of a device."""
    found = dict[str, None]()
    for path in paths:
        try:
            methods = opened(os.fspath(path), [*data] or None).program.info()["methods"]
        except (Error, OSError):  # a row of the report
            continue
        found |= {text: None for one in methods if one["name"] == method for text in untimed(one)}
    return tuple(found)


def _titles(paths: Sequence[str]) -> list[str]:
    """Return the names of files, with the folder where several have one name."""
    names = [os.path.basename(path) for path in paths]
    whole = [
        os.path.join(os.path.basename(os.path.dirname(os.path.abspath(p))), n)
        for p, n in zip(paths, names)
    ]
    return [w if names.count(n) > 1 else n for w, n in zip(whole, names)]


def _entries(
    paths: Sequence[str], rivals: Sequence[str], model: str | None, task: Task
) -> list[Entry]:
    here = ENGINES["here"]
    titles = _titles(paths)
    entries = [Entry(name, here, replace(task, path=path)) for name, path in zip(titles, paths)]
    for text in rivals:
        engine, path = rival_of(text)
        if engine.name == "eager" and model is None:
            raise ValueError("rival 'eager' needs `model`, the function that returns the model")
        path = path or (paths[0] if engine.name == "official" else model or "")
        entries.append(Entry(engine.name, engine, replace(task, path=path)))
    return entries


def _measured(
    entries: Sequence[Entry], threads: int, min_time: float, concurrency: int, shown: Progress
) -> list[Measured]:
    """Return the rows of one number of threads."""
    children = [Child() for _ in entries]
    rows = [Measured(entry.title, entry.engine.name, entry.task.path, threads) for entry in entries]
    try:
        for row, child, entry in zip(rows, children, entries, strict=True):
            shown(f"loading {entry.title}")
            _load(row, child, replace(entry.task, threads=threads))
        for number in range(ROUNDS):
            shown(f"{_text.plural(threads, 'thread')}, turn {number + 1} of {ROUNDS}")
            for row, child in zip(rows, children, strict=True):
                if not row.error:
                    _turn(row, child, min_time / ROUNDS)
        if concurrency > 1:
            for row, child in zip(rows, children, strict=True):
                if not row.error:
                    _concurrent(row, child, concurrency, min_time)
    finally:
        for child in children:
            child.close()
    first = rows[0]
    for row in rows[1:]:
        if not row.error and not first.error:
            row.difference = _difference(row.outputs, first.outputs)
            row.ratio = ratio_interval(row.turns, first.turns)
    return rows


def _load(row: Measured, child: Child, task: Task) -> None:
    try:
        facts = child.ask("load", row.engine, task)
    except Failed as error:
        row.error = str(error)
        return
    row.import_seconds, row.load_seconds = facts["import_seconds"], facts["load_seconds"]
    row.first_seconds, row.peak_bytes = facts["first_seconds"], facts["peak_bytes"]
    row.outputs = facts["outputs"]


def _turn(row: Measured, child: Child, seconds: float) -> None:
    try:
        row.turns.append(child.ask("turn", seconds, seconds=seconds))
    except Failed as error:
        row.error = str(error)


def _concurrent(row: Measured, child: Child, count: int, seconds: float) -> None:
    try:
        row.calls_per_second = child.ask("concurrent", count, seconds, seconds=seconds)
        row.concurrency = count
    except Failed as error:
        row.error = str(error)


def _difference(outputs: Sequence[Any], expected: Sequence[Any]) -> float | None:
    """Return the largest relative RMS difference of outputs; None where they cannot be compared."""
    found = []
    for ours, first in zip(outputs, expected):
        if ours is None or first is None or np.shape(ours) != np.shape(first):
            return None
        if first.size:
            found.append(rms(ours - first) / (rms(first) or 1.0))
    return max(found, default=0.0) if len(outputs) == len(expected) else None
