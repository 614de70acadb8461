"""The manifest of a folder of probes, probes.json: its fields, and how it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import Array, dtype_of

if TYPE_CHECKING:
    from executorch_c._types import FilePath

MANIFEST = "probes.json"
VERSION = 1
MAX_BYTES = 64 << 20
"""Maximum size of a manifest."""

_INPUT = {"file": str, "dtype": str, "shape": [int]}
_OUTPUT = {"output": int, "id": str, "name": str, "dtype": str, "shape": [int]}
FIELDS: dict[str, Any] = {
    "version": int,
    "program": str,
    "sha256": str,
    "method": str,
    "inputs": [_INPUT],
    "rounds": bool,
    "candidates": [str],
    "programs": {str: {"cut": bool, "outputs": [_OUTPUT]}},
    "refused": {str: str},
}
"""Fields by name: a type, a list of one, a table of fields, or {str: ...} of any names."""
QUANTIZED = {"scale": (int, float), "zero_point": int}
"""Fields that an output of integers has, too."""


def read(folder: FilePath) -> dict[str, Any]:
    """Return the manifest of a folder. Raises ValueError without one, or for a damaged one."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise ValueError(f"{os.fspath(folder)!s}: no {MANIFEST}: `blame --probes DIR` writes it")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: not a manifest of probes (more than {MAX_BYTES:,} bytes)")
    try:
        state: dict[str, Any] = json.loads(path.read_bytes())
        if isinstance(state, dict) and state.get("version") != VERSION:
            raise ValueError(f"version {state.get('version')!r}, expected {VERSION}")
        _check("manifest", state, FIELDS)
        _check_names(state)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a manifest of probes ({error})") from None
    return state


def _check(name: str, value: Any, expected: Any) -> None:
    """Raise ValueError for a value that is not as FIELDS has it."""
    kind = type(expected) if isinstance(expected, (list, dict)) else expected
    is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not is_right:
        raise ValueError(f"{name} is a {type(value).__name__}")
    if isinstance(expected, list):
        for i, item in enumerate(value):
            _check(f"{name}[{i}]", item, expected[0])
    elif isinstance(expected, dict):
        fields = expected if str not in expected else dict.fromkeys(value, expected[str])
        for field, inner in fields.items():
            if field not in value:
                raise ValueError(f"{name} has no {field}")
            _check(f"{name}.{field}", value[field], inner)


def _check_names(state: Mapping[str, Any]) -> None:
    """Raise ValueError for files outside of the folder, and for outputs that cannot be."""
    files = [*state["programs"], *(row["file"] for row in state["inputs"])]
    for name in files:
        if not name.isprintable() or name in ("", ".", "..") or os.path.basename(name) != name:
            raise ValueError(f"{name!r} is not the name of a file in the folder")
    if "\0" in state["method"]:
        raise ValueError(f"{state['method']!r} is not the name of a method")
    for name, one in state["programs"].items():
        for row in one["outputs"]:
            if row["output"] < 0:
                raise ValueError(f"{name} has an output {row['output']}")
            if "scale" in row:
                _check(name, row, QUANTIZED)


def inputs(folder: Path, state: Mapping[str, Any]) -> list[Array]:
    """Return the inputs of a folder's programs. Raises ValueError, OSError."""
    return [_input(folder / row["file"], row) for row in state["inputs"]]


def _input(path: Path, row: Mapping[str, Any]) -> Array:
    try:
        dtype = dtype_of(row["dtype"])
        array: Array = np.frombuffer(path.read_bytes(), dtype).reshape(row["shape"])
    except (ValueError, TypeError) as error:
        what = f"{row['dtype']} of shape {row['shape']}"
        raise ValueError(f"{path}: expected {what} ({error})") from None
    return array
