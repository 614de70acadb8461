"""FlatBuffers from dictionaries, by the tables that the runtime reads files with."""

import sys
from typing import Any

import numpy as np
import pytest

from executorch_c import Runtime, _core, _flatbuffers
from tests import fbs

OFFICIAL = {
    "pte": ("executorch.exir._serialize", "program.fbs"),
    "ptd": ("executorch.extension.flat_tensor.serialize", "flat_tensor.fbs"),
    "bpte": ("executorch.devtools.bundled_program.serialize", "bundled_program_schema.fbs"),
    "etdump": ("executorch.devtools.etdump", "etdump_schema_flatcc.fbs"),
}
UNUSED = {"etdump": ["Null", "String"]}
"""Tables that no field refers to."""


@pytest.mark.parametrize("kind", OFFICIAL)
def test_tables_are_those_of_the_official_schemas(kind: str) -> None:
    pytest.importorskip("executorch")
    package, name = OFFICIAL[kind]
    tables = _core._file_tables(kind)
    expected = fbs.tables(fbs.texts(package, name, "scalar_type.fbs"))
    for unused in UNUSED.get(kind, []):
        del expected[unused]
    assert {name: [*fields.items()] for name, fields in tables.items()} == {
        name: [*fields.items()] for name, fields in expected.items()
    }


def test_other_kinds_of_files() -> None:
    with pytest.raises(KeyError, match="'zip'"):
        _core._file_tables("zip")
    with pytest.raises(TypeError, match="3 is not a str"):
        _core._file_tables(3)  # type: ignore[arg-type]


def tensor(**more: Any) -> dict[str, Any]:
    sizes = {"sizes": [2], "dim_order": [0], "shape_dynamism": 0}
    return {"val": ("Tensor", {"scalar_type": 6, **sizes, **more})}


def test_a_program_of_every_kind_of_field() -> None:
    """A sum of an input and a constant, with alpha 2.0: numbers, texts, vectors, unions, data."""
    planned = {"memory_id": 1, "memory_offset_low": 0}
    values = [
        tensor(allocation_info=planned),
        tensor(data_buffer_idx=1),
        {"val": ("Double", {"double_val": 2.0})},
        tensor(allocation_info={**planned, "memory_offset_low": 16}),
    ]
    call = {"op_index": 0, "args": [0, 1, 2, 3, 3]}
    plan = {
        "name": "forward",
        "values": values,
        "inputs": [0],
        "outputs": [3],
        "chains": [
            {"inputs": [], "outputs": [], "instructions": [{"instr_args": ("KernelCall", call)}]}
        ],
        "operators": [{"name": "aten::add", "overload": "out"}],
        "delegates": None,
        "non_const_buffer_sizes": [0, 32],
    }
    constant = np.array([1, -3], np.float32).tobytes()
    program = {
        "version": 0,
        "execution_plan": [plan],
        "constant_buffer": [{"storage": b""}, {"storage": constant}],
    }
    data = _flatbuffers.write(
        program, _core._file_tables("pte"), "Program", "programs", identifier=b"ET12"
    )
    assert data.index(constant) % _flatbuffers.ALIGNMENT == 0
    method = Runtime.get().load_program(data).load_method("forward")
    [output] = method.execute([np.array([10, 20], np.float32)])
    np.testing.assert_array_equal(output, [12, 14])


def test_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"Root": {"number": "1", "part_type": "1", "part": "|Part"}, "Part": {}}

    def write(values: dict[str, object]) -> bytes:
        return _flatbuffers.write(values, tables, "Root", "roots")

    assert write({"number": -128, "part": ("Part", {})}) != write({"number": None})
    for wrong, error in [
        ({"numbers": 1}, KeyError),
        ({"number": 128}, TypeError),
        ({"part": ("Root", {})}, ValueError),
    ]:
        with pytest.raises(error):
            write(wrong)
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ImportError, match=r"writing roots needs .*executorch_c\[devtools\]"):
        write({})
