"""Payloads of OpenvinoBackend: programs of tests/backends/programs, taken apart and changed."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from plans import Plan, build, schema

PROGRAMS = Path(__file__).parent / "programs"
ID = "OpenvinoBackend"
START = b'<?xml version="1.0"?>'
NAMES = sorted(path.stem.removeprefix("openvino_") for path in PROGRAMS.glob("openvino_*.pte"))


def pte(name: str) -> bytes:
    return (PROGRAMS / f"openvino_{name}.pte").read_bytes()


def cases(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs and eager outputs."""
    with np.load(PROGRAMS / f"openvino_{name}.npz") as arrays:
        return [[arrays[f"{kind}{i}"] for i in range(len(arrays.files))
                 if f"{kind}{i}" in arrays.files] for kind in ("in", "out")]  # fmt: skip


@dataclass(frozen=True)
class Blob:
    """A payload in its parts; `model` is XML."""

    about: bytes
    constants: bytes
    model: bytes
    key: bytes

    def pack(self) -> bytes:
        words, at = [], 48
        for part in (self.about, self.constants, self.model):
            words += [at, len(part)]
            at += len(part)
        hidden = bytes(a ^ b for a, b in zip(self.model, itertools.cycle(self.key)))
        return struct.pack("<6Q", *words) + self.about + self.constants + hidden

    def edited(self, old: bytes, new: bytes) -> Blob:
        """Return the payload with a part of the model replaced."""
        assert old in self.model
        return replace(self, model=self.model.replace(old, new, 1))


def unpack(payload: bytes) -> Blob:
    words = struct.unpack_from("<6Q", payload)
    about, constants, model = (payload[at : at + size] for at, size in zip(words[::2], words[1::2]))
    key = bytes(a ^ b for a, b in zip(model, START))[:12]
    xml = bytes(a ^ b for a, b in zip(model, itertools.cycle(key)))
    assert xml.startswith(START)
    return Blob(about, constants, xml, key)


def program(payload: bytes, shape: tuple[int, ...] = (4, 32), out: tuple[int, ...] = (4, 10),
            dtype: str = "float32", device: bytes = b"CPU") -> bytes:  # fmt: skip
    """Return a program that is one delegate, with one input and one output."""
    plan = Plan()
    delegate = plan.delegate(ID, 0, [schema.CompileSpec("device", device)])
    x, y = plan.input(shape, dtype), plan.output(out)
    plan.append(schema.DelegateCall(delegate, [x, y]))
    return build(plan, payloads=[payload])
