"""Random ETRecords and damaged ones: they are read, and name events, or the error has the name of
the file."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flatbuffers")

from executorch_c import InvalidExternalDataError
from executorch_c.inspect import read_etdump, read_etrecord
from tests.fuzz.random_records import Records
from tests.fuzz.readers import check_cases
from tests.inspect.test_read_etdump import damaged, timed, written

EVENTS = [
    timed(1, 2, name="native_call_add.out", instruction_id=2),
    *(timed(3, 4, delegate_debug_id_int=i, instruction_id=3) for i in (0, 3)),
    timed(4, 5, delegate_debug_id_str="a:add_1:OpId_7 (cycles)", instruction_id=3),
]


def read(path: Path, dump: Path, whole: bool) -> None:
    """Read a record, and use it: all of it if `whole`."""
    record = read_etrecord(path)
    str(record).encode()
    for method in record.debug_handles if whole else [*record.debug_handles][:1]:
        named = read_etdump(dump, etrecord=record, method=method)
        if whole:
            named.rows_as_dicts()
        str(named).encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of the pickle's protocol
        record.representative_inputs()


def cases(folder: Path) -> Callable[[int], bool]:
    """Return a function that reads the record of a number, and returns if it is not refused."""
    dump, path = written(folder / "a.etdp", EVENTS), folder / "a.etrecord"

    def case(number: int) -> bool:
        archive, part = divmod(number, 3)  # two of an archive, the second of which is damaged
        data = Records(2 * archive + (part == 2)).archive()
        path.unlink(missing_ok=True)  # ext4 writes a file that is truncated to the disk: 4 ms
        path.write_bytes(damaged(number, data) if part == 1 else data)
        try:
            read(path, dump, number % 4 == 0)
        except InvalidExternalDataError as error:
            assert str(error).startswith(str(path))
            return False
        return True

    return case


def test_random_etrecords(tmp_path: Path) -> None:
    check_cases(cases(tmp_path), 240)
