"""Entry points of installed packages, read from their `entry_points.txt`.

`importlib.metadata` takes 30 ms for it with 150 packages, half of them for its imports: longer than
most programs take to load. This module takes 2 ms. The library is still asked if `sys.path` has
anything but folders. Format: packaging.python.org/specifications/entry-points.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder

INFO = (".dist-info", ".egg-info")
VALUE = re.compile(r"(?P<module>[\w.]+)\s*(:\s*(?P<attribute>[\w.]+)\s*)?(\[.*\]\s*)?$")


class EntryPoint:
    """A line of a group: `name = module:attribute`."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value
        match = VALUE.match(value)
        self.module = match["module"] if match else ""
        self.attribute = (match["attribute"] or "") if match else ""

    def load(self) -> object:
        """Import the module and return the object that the entry point names.

        Raises ValueError for another form than `module` or `module:attribute`.
        """
        if not self.module:
            raise ValueError(f"found '{self.value}', expected 'module' or 'module:attribute'")
        module: object = import_module(self.module)
        return reduce(getattr, filter(None, self.attribute.split(".")), module)


def has_only_folders() -> bool:
    """Return whether all distributions are folders on `sys.path`: no archives, no eggs, no
    finders of distributions of another kind."""
    if any(os.path.isfile(path) or path.endswith(".egg") for path in sys.path):
        return False
    return not any(
        hasattr(finder, "find_distributions") and finder is not PathFinder
        for finder in sys.meta_path
    )


def texts() -> Iterator[str]:
    """Yield the `entry_points.txt` of each distribution, of the first on `sys.path` with its
    name."""
    seen: set[str] = set()
    for path in sys.path:
        try:
            names = sorted(name for name in os.listdir(path or ".") if name.endswith(INFO))
        except OSError:
            continue
        for name in names:
            distribution = re.sub(r"[-_.]+", "_", name.rsplit(".", 1)[0].partition("-")[0]).lower()
            if distribution in seen:
                continue
            seen.add(distribution)
            try:
                with open(os.path.join(path, name, "entry_points.txt"), encoding="utf-8") as file:
                    yield file.read()
            except (OSError, UnicodeDecodeError):
                continue


def parse(text: str, group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of a group in an `entry_points.txt`."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip())


def entry_points(*groups: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of all installed packages in some groups, by group."""
    if not has_only_folders():
        from importlib import metadata

        return {
            group: [
                EntryPoint(point.name, point.value) for point in metadata.entry_points(group=group)
            ]
            for group in groups
        }
    points: dict[str, list[EntryPoint]] = {group: [] for group in groups}
    for text in texts():
        for group in groups:
            if group in text:
                points[group] += parse(text, group)
    return points
