"""Random ETDumps that the schema allows: they are read, or refused with the name of the file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flatbuffers")

from executorch_c import InvalidExternalDataError, _core
from executorch_c.inspect import read_etdump
from executorch_c.inspect.etdump import KINDS
from tests.fuzz.readers import check_cases
from tests.fuzz.random_tables import Table, Tables
from tests.inspect.test_read_etdump import flatbuffer, of_tensor, values

BUFFER = bytes(range(64))
VALUES = ("tensor", "tensor_list", "int_value", "float_value", "double_value", "bool_value")


def event(tables: Tables) -> Table:
    """Return an event; most have one kind, and a value its type."""
    whole = tables.table("Event")
    if tables.random.random() < 0.1:
        return whole
    kind = tables.random.choice(("profile_event", "allocation_event", "debug_event", "debug_event"))
    value = whole.get("debug_event", {}).get("debug_entry", {})
    names = [name for name in VALUES if name in value]
    if names and tables.random.random() < 0.9:
        name = tables.random.choice(names)
        number = KINDS.index(name.removesuffix("_value").title().replace("_", ""))
        kept = {name: value[name], **{key: value[key] for key in value if key == "output"}}
        whole["debug_event"]["debug_entry"] = {"val": number, **kept}
    return {name: table for name, table in whole.items() if name == kind}


def test_a_stride_of_one_element_is_not_used(tmp_path: Path) -> None:
    [value] = values(tmp_path, BUFFER, of_tensor(np.ones((1, 3), "uint8"), strides=[2**62, 2]))
    np.testing.assert_array_equal(value, [[0, 2, 4]])


def cases(folder: Path) -> Callable[[int], bool]:
    """Return a function that reads the dump of a number, and returns if it is not refused."""
    schema = _core._file_tables("etdump")
    path, buffer = folder / "a.etdp", folder / "a.bin"
    buffer.write_bytes(BUFFER)

    def case(number: int) -> bool:
        tables = Tables(schema, number)
        runs = [
            {
                "name": "Execute",
                "events": [event(tables) for _ in range(tables.random.randrange(4))],
            }
            for _ in range(tables.random.randrange(3))
        ]
        path.unlink(missing_ok=True)
        path.write_bytes(flatbuffer(runs))
        try:
            dump = read_etdump(path, buffer)
            dump.rows_as_dicts()
            str(dump)
        except InvalidExternalDataError as error:
            assert str(error).startswith(str(path))
            return False
        return True

    return case


def test_random_etdumps(tmp_path: Path) -> None:
    check_cases(cases(tmp_path), 240)
