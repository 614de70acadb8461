"""Random ETRecords and damaged ones: they are read, and name events, or the error has the name of
the file."""

import os
from pathlib import Path

import pytest

pytest.importorskip("flatbuffers")

from executorch_c import InvalidExternalDataError
from executorch_c.inspect import read_etdump, read_etrecord
from tests.fuzz.random_records import Records
from tests.inspect.test_read_etdump import damaged, timed, written

MUTATIONS = int(os.environ.get("EXECUTORCH_C_FUZZ_MUTATIONS", "8"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
EVENTS = [
    timed(1, 2, name="native_call_add.out", instruction_id=2),
    *(timed(3, 4, delegate_debug_id_int=i, instruction_id=3) for i in (0, 3)),
    timed(4, 5, delegate_debug_id_str="a:add_1:OpId_7 (cycles)", instruction_id=3),
]


def read(path: Path, dump: Path) -> None:
    """Read a record, and use all of it."""
    record = read_etrecord(path)
    str(record).encode()
    for method in record.debug_handles:
        named = read_etdump(dump, etrecord=record, method=method)
        named.rows_as_dicts()
        str(named).encode()
    record.representative_inputs()


def test_random_etrecords(tmp_path: Path) -> None:
    dump, path = written(tmp_path / "a.etdp", EVENTS), tmp_path / "a.etrecord"
    counts = {True: 0, False: 0}
    for number in range(MUTATIONS * 30):
        seed = SEED * 1_000_003 + number
        data = Records(seed).archive()
        path.write_bytes(damaged(seed, data) if number % 3 == 0 else data)
        try:
            read(path, dump)
            counts[True] += 1
        except InvalidExternalDataError as error:
            assert str(error).startswith(str(path))
            counts[False] += 1
    assert min(counts.values()) > 10, counts
