"""Payloads of interpreted delegates with one wrong field: one exception that names the place.

The tables are in hostile_vulkan.py, hostile_tosa.py, hostile_native.py and hostile_mlx.py;
test_recorded.py damages bytes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flatbuffers")

from executorch_c import Error, Runtime
from tests.backends import hostile_mlx, hostile_native, hostile_tosa, hostile_vulkan

VULKAN, TOSA, NATIVE = hostile_vulkan.VULKAN, hostile_tosa.TOSA, hostile_native.NATIVE
TABLES: dict[str, tuple[Callable[..., bytes], Path, list[Any]]] = {
    "vulkan": (VULKAN.edited, VULKAN.folder, hostile_vulkan.VULKAN_ROWS),
    "tosa": (TOSA.edited, TOSA.folder, hostile_tosa.TOSA_ROWS),
    "vgf": (hostile_tosa.edited_vgf, TOSA.folder, hostile_tosa.VGF_ROWS),
    "mlx": (hostile_mlx.MLX.edited, hostile_mlx.MLX.folder, hostile_mlx.MLX_ROWS),
    "native": (NATIVE.edited, NATIVE.folder, hostile_native.NATIVE_ROWS),
}


def run(pte: bytes, path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        inputs = [file[key] for key in sorted(file) if key.startswith("in")]
    program = Runtime.get().load_program(pte)
    program._delegate("forward", 0)
    return list(program.load_method("forward").execute(inputs))


PROGRAMS = sorted({(table, row[0]) for table in TABLES for row in TABLES[table][2]})


@pytest.mark.parametrize(("table", "name"), PROGRAMS)
def test_unchanged(table: str, name: str) -> None:
    """The payload that the rows change runs after a round trip through the writer."""
    edited, folder, _ = TABLES[table]
    right = run((folder / f"{name}.pte").read_bytes(), folder / f"{name}.npz")
    outputs = run(edited(name, lambda graph: None), folder / f"{name}.npz")
    for output, expected in zip(outputs, right, strict=True):
        np.testing.assert_array_equal(output, expected)


ROWS = [(table, number) for table in TABLES for number in range(len(TABLES[table][2]))]


@pytest.mark.parametrize(("table", "number"), ROWS)
def test_refused(table: str, number: int) -> None:
    edited, folder, rows = TABLES[table]
    name, change, sentence = rows[number]
    pte = edited(name, change)
    with pytest.raises(Error) as error:
        run(pte, folder / f"{name}.npz")
    assert sentence in str(error.value)


@pytest.mark.parametrize("number", range(len(hostile_mlx.HEADERS)))
def test_headers_of_mlx(number: int) -> None:
    change, sentence = hostile_mlx.HEADERS[number]
    with pytest.raises(Error, match=sentence):
        run(hostile_mlx.with_payload("mlp", change), hostile_mlx.MLX.folder / "mlp.npz")
