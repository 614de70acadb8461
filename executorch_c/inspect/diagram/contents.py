"""Bytes of two programs that their graphs do not show: weights, and payloads of delegates."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

import numpy as np

from executorch_c._programs import ProgramFile
from executorch_c._render import text as _text
from executorch_c._render.page.model import DataPlace, Node
from executorch_c.inspect import payloads
from executorch_c.inspect.structure import View

IDENTIFIER = b"ET12"
"""Bytes 4 to 8 of a program."""


class Contents:
    """The bytes of a program's constants and payloads."""

    def __init__(self, source: ProgramFile, view: View) -> None:
        self.program, self.view = source.program, view
        self._file = None if source.bundled else _file_bytes(source.source)

    @property
    def is_file(self) -> bool:
        """Return whether the bytes of the file are known."""
        return self._file is not None

    def constant(self, place: DataPlace) -> np.ndarray | None:
        """Return the bytes of a constant; None if the source is no file, or the key is unknown."""
        if isinstance(place, str):
            data = self.program._named_data(place)
            return None if data is None else np.frombuffer(data, np.uint8)
        start, count = place
        return None if self._file is None else self._file[start : start + count]

    def payload(self, delegate: int) -> np.ndarray:
        """Return the payload of a delegate."""
        return np.frombuffer(self.program._payload(self.view.method, delegate), np.uint8)

    def facts(self, delegate: int) -> dict[str, str]:
        """Return the compile specs of a delegate, and what else its payload shows."""
        specs = self.view.structure["delegates"][delegate]["specs"]
        texts = {f"compile spec {key}": payloads.spec_text(value) for key, value in specs}
        return {**texts, **dict(self.view.facts(delegate))}


def _file_bytes(source: object) -> np.ndarray | None:
    """Return the bytes of a program's path or buffer; None for others, such as packages."""
    if isinstance(source, (str, os.PathLike)):
        data: np.ndarray = np.memmap(source, np.uint8, "r")
    elif isinstance(source, (bytes, bytearray, memoryview)):
        data = np.frombuffer(source, np.uint8)
    else:
        return None
    return data if data[4:8].tobytes() == IDENTIFIER else None


def _difference(a: np.ndarray, b: np.ndarray) -> str:
    """Return how two arrays of bytes differ: "4 of 2,304 bytes differ"; empty if they do not."""
    if a.size != b.size:
        return f"{a.size:,} -> {_text.plural(b.size, 'byte')}"
    count = int(np.count_nonzero(a != b))
    return f"{count:,} of {_text.plural(a.size, 'byte')} differ" if count else ""


class ContentsPair:
    """The contents of two programs."""

    def __init__(self, first: Contents, second: Contents) -> None:
        self.first, self.second = first, second

    def weights(self, a: Node, b: Node) -> Iterator[str]:
        """Yield the differences of the weights of two nodes: "bias: 4 of 32 bytes differ"."""
        for name in a.data.keys() & b.data.keys():
            was, now = self.first.constant(a.data[name]), self.second.constant(b.data[name])
            if was is not None and now is not None and (text := _difference(was, now)):
                yield f"{name}: {text}"

    def note(self) -> str:
        """Return what is not compared."""
        if self.first.is_file and self.second.is_file:
            return ""
        return "weights of instructions are not compared: pass both programs as .pte files"

    def named(self, known: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the keys of named data with other bytes, but those of `known`, and how they
        differ."""
        for one in self.first.program.info()["named_data"]:
            key = one["key"]
            was, now = self.first.constant(key), self.second.constant(key)
            if key in known or was is None or now is None:
                continue
            if text := _difference(was, now):
                yield key, text

    def payloads(self, first: int, second: int) -> str:
        """Return how the payloads of two delegates differ; empty if they do not."""
        return _difference(self.first.payload(first), self.second.payload(second))

    def facts(self, first: int, second: int) -> Iterator[str]:
        """Yield the compile specs and what else two payloads show, where they differ."""
        was, now = self.first.facts(first), self.second.facts(second)
        for name in dict.fromkeys([*was, *now]):
            if was.get(name) != now.get(name):
                yield f"{name}: {was.get(name, 'none')} -> {now.get(name, 'none')}"
