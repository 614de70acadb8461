"""Checks as plain data: a model by a flow, or with its program."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from executorch_c._render.text import did_you_mean, shortened, unknown
from executorch_c import _functions
from executorch_c.check.flows import FLOWS, unknown_flow
from executorch_c.suite import options as known

SECONDS = 900.0
"""Default time limit of a check."""
MAX_DIGITS = 9
"""Maximum number of digits of a part's number."""
TABLES = ("defaults", "models")
MODEL_KEYS = ("model", "flows", "program", "flow")
"""Keys of a model besides options."""

Keys = tuple[str, ...]
"""Where a value is: ("models", "net", "flows")."""


@dataclass(frozen=True)
class CheckTask:
    """A check: plain data, which can be pickled and sent to another process or machine."""

    name: str
    """"model:flow"; of an existing program "model:program"."""
    model: str
    """Name of the model."""
    flow: str | None
    """Name of the flow; None for an existing program."""
    make: str
    """Function that returns the model: "/path/model.py:make", or "module:make"."""
    folder: str
    """Folder in which the check runs: that of the file of checks."""
    program: str | None = None
    """Path of an existing program."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of check_model."""
    seconds: float = SECONDS
    """Time limit."""
    line: int | None = None
    """Line of the model in the file of checks."""
    page: str | None = None
    """Path of an HTML page to write unless the verdict is "match"."""


class Reader:
    """Reads checks from a table, as TOML has them.

    Args:
        table: {"defaults": {...}, "models": {name: {...}}}.
        folder: Folder that relative paths are relative to.
        place: Returns where a key is, for messages: "checks.toml:12".
        line: Returns the line of a key, if known.
    """

    def __init__(
        self,
        table: Mapping[str, Any],
        folder: str,
        place: Callable[[Keys], str],
        line: Callable[[Keys], int | None] = lambda keys: None,
    ) -> None:
        self.table, self.folder, self.place, self.line = table, folder, place, line

    def _fail(self, keys: Keys, problem: str) -> NoReturn:
        where = ".".join(keys[:-1] if problem.startswith("unknown key") else keys)
        raise ValueError(f"{self.place(keys)}: {where + ': ' if where else ''}{problem}")

    def _table(self, keys: Keys, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self._fail(keys, f"found {value!r}, expected a table")
        return value

    def checks(self) -> list[CheckTask]:
        """Return all checks, in the order of the table. Raises ValueError."""
        self._table((), self.table)
        for name in self.table:
            if name not in TABLES:
                self._fail((name,), f"unknown key {unknown(name, TABLES)}")
        defaults = self._table(("defaults",), self.table.get("defaults", {}))
        self._check_options(("defaults",), defaults, ("flows",))
        models = self._table(("models",), self.table.get("models", {}))
        if not models:
            self._fail((), "no models: expected a table [models.NAME] for each")
        tasks = [task for name in models for task in self._model(name, models[name], defaults)]
        return tasks

    def _check_options(self, at: Keys, table: Mapping[str, Any], more: Sequence[str]) -> None:
        names = dict.fromkeys(more) | dict(known.EVERY)
        for name, value in table.items():
            if problem := known.wrong(name, value, names):
                self._fail((*at, name), problem)

    def _model(self, name: str, value: Any, defaults: Mapping[str, Any]) -> Iterator[CheckTask]:
        """Yield the checks of a model."""
        at: Keys = ("models", name)
        table = self._table(at, value)
        self._check_options(at, table, MODEL_KEYS)
        program = table.get("program")
        if program is not None and not isinstance(program, str):
            self._fail((*at, "program"), f"found {program!r}, expected a path")
        flows = self._flows(at, table, defaults)
        by_flow = self._table((*at, "flow"), table.get("flow", {}))
        for name_of_flow, options in by_flow.items():
            keys = (*at, "flow", name_of_flow)
            if name_of_flow not in flows:
                self._fail(keys, f"unknown key {unknown(name_of_flow, flows)}")
            self._check_options(keys, self._table(keys, options), ())
        common = {**defaults, **{k: v for k, v in table.items() if k not in MODEL_KEYS}}
        common.pop("flows", None)
        task = CheckTask(
            name,
            name,
            None,
            self._make(at, table),
            self.folder,
            None if program is None else os.path.join(self.folder, program),
            line=self.line(at),
        )
        for flow in flows or (None,):
            own = by_flow.get(flow or "", {})
            merged = dict(known.resolved(self.folder, {**common, **own}))
            seconds = float(merged.pop("seconds", SECONDS))
            full = f"{name}:{flow or 'program'}"
            yield replace(task, name=full, flow=flow, options=merged, seconds=seconds)

    def _make(self, at: Keys, table: Mapping[str, Any]) -> str:
        """Return the name of the function that makes the model, with an absolute path."""
        text = table.get("model")
        if not isinstance(text, str):
            hint = next(filter(None, (did_you_mean("model", [key]) for key in table)), "")
            self._fail(at, f"model is missing{hint}: expected a function, file.py:function")
        try:
            place, name = _functions.parts_of(text)
        except ValueError as error:
            self._fail((*at, "model"), str(error))
        if not place.endswith(".py"):
            return text
        path = os.path.join(self.folder, place)
        if not os.path.isfile(path):
            self._fail((*at, "model"), f"{path} does not exist")
        return f"{path}:{name}"

    def _flows(self, at: Keys, table: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
        """Return the flows of a model; none for an existing program."""
        keys = (*at, "flows")
        if "program" in table:
            if "flows" in table:
                self._fail(keys, "flows export the model: program is an existing one")
            return []
        source = table if "flows" in table else defaults
        keys = keys if "flows" in table else ("defaults", "flows")
        flows = source.get("flows", ["portable"])
        if not isinstance(flows, (list, tuple)) or not flows:
            self._fail(keys, f"found {flows!r}, expected a list of names of flows")
        for i, flow in enumerate(flows):
            if not isinstance(flow, str) or flow not in FLOWS:
                self._fail(keys, f"flow {unknown_flow(str(flow))}")
            if flow in flows[:i]:
                self._fail(keys, f"flow '{flow}' is there twice")
        return list(flows)


def only(tasks: Sequence[CheckTask], patterns: Sequence[str]) -> list[CheckTask]:
    """Return the checks that match one of several patterns: the name of a check, a model or a flow,
    with * and ?. Raises ValueError if a pattern matches none."""
    kept = set[str]()
    for pattern in patterns:
        found = {
            task.name
            for task in tasks
            for name in (task.name, task.model, task.flow or "program")
            if fnmatch.fnmatchcase(name, pattern)
        }
        if not found:
            names = [name for task in tasks for name in (task.model, task.name, task.flow or "")]
            hint = did_you_mean(pattern, names)
            raise ValueError(f"no check matches '{pattern}'{hint}")
        kept |= found
    return [task for task in tasks if not patterns or task.name in kept]


def shard_of(text: str) -> tuple[int, int]:
    """Return (2, 4) of "2/4": the second of four parts. Raises ValueError."""
    number, _, count = text.partition("/")
    if any(not (part.isdecimal() and len(part) <= MAX_DIGITS) for part in (number, count)):
        raise ValueError(f"shard is '{shortened(text, 40)}', expected i/n, as 2/4")
    if not 1 <= int(number) <= int(count):
        raise ValueError(f"shard is '{text}', expected a number from 1 to {count} before the /")
    return int(number), int(count)


def names_of_part(names: Sequence[str], shard: tuple[int, int]) -> set[str]:
    """Return each n-th name, from the i-th, of the names in the order of their flows: checks by one
    flow take similar times, and each part has as many of them."""
    flows = dict.fromkeys(name.rpartition(":")[2] for name in names)
    ranks = {flow: rank for rank, flow in enumerate(flows)}
    ordered = sorted(names, key=lambda name: ranks[name.rpartition(":")[2]])
    number, count = shard
    return set(ordered[number - 1 :: count])


def part(tasks: Sequence[CheckTask], shard: tuple[int, int]) -> list[CheckTask]:
    """Return the checks of a part, in their order."""
    names = names_of_part([task.name for task in tasks], shard)
    return [task for task in tasks if task.name in names]
