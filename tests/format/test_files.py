"""The .pte container: headers, identifiers, damage, segments, and sources of its bytes."""

import gc
import io
import mmap
import os
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo

import executorch_c
from executorch_c import AccessFailedError, InvalidArgumentError, InvalidProgramError, Runtime
from executorch_c import Verification
from tests.exports import export
from tests.plans import Constants, Plan, adding, build, load, program, reference, schema
from tests.resident import mapping

ONES = np.ones(4, np.float32)


def plain() -> bytes:
    """Return a program without segments and header."""
    return build(adding(1)[0])


def with_constants(count: int = 3) -> bytes:
    """Return the program x + c0 + c1 + ..., with the constants in a segment."""
    constants = Constants()
    plan = Plan()
    x = plan.input((4,))
    for i in range(count):
        y = plan.tensor((4,))
        plan.call("aten::add.out", x, plan.constant(constants, i * ONES), 1, y)
        x = y
    plan.take(x)
    return build(plan, constants=constants)


def header_at(pte: bytes) -> tuple[bytes, int, int, int, int]:
    """Return magic, length, program size, segment base and segment data size."""
    return struct.unpack_from("<4sIQQQ", pte, 8)


def with_header(pte: bytes, **fields: int) -> bytes:
    """Return the file with other numbers in its extended header."""
    names = ("magic", "length", "program_size", "segment_base", "segment_size")
    values = dict(zip(names, header_at(pte), strict=True))
    values.update(fields)  # type: ignore[arg-type]
    out = bytearray(pte)
    struct.pack_into("<4sIQQQ", out, 8, *values.values())
    return bytes(out)


def run(data: Any, **options: Any) -> Any:
    return load(data, **options)(ONES)


# ---- headers ---------------------------------------------------------------------------------


def test_without_extended_header() -> None:
    pte = plain()
    assert pte[8:12] != b"eh00"
    np.testing.assert_array_equal(run(pte), 2 * ONES)
    info = Runtime.get().load_program(pte).info()
    assert (info["header_length"], info["segment_base"]) == (0, 0)
    assert [segment["size"] for segment in info["segments"]] == [0]
    assert info["program_size"] == info["file_size"] == len(pte)
    np.testing.assert_array_equal(reference(pte, ONES).outputs, [2 * ONES])


def test_with_extended_header() -> None:
    pte = with_constants()
    magic, length, program_size, base, size = header_at(pte)
    assert (magic, length) == (b"eh00", 32)
    np.testing.assert_array_equal(run(pte), 4 * ONES)
    info = Runtime.get().load_program(pte).info()
    assert (info["header_length"], info["program_size"]) == (32, program_size)
    assert (info["segment_base"], info["file_size"]) == (base, base + size)
    np.testing.assert_array_equal(reference(pte, ONES).outputs, [4 * ONES])


def test_short_header() -> None:
    """A header of 24 bytes, without the field for the size of the segments."""
    pte = with_header(with_constants(), length=24, segment_size=2**63)
    np.testing.assert_array_equal(run(pte), 4 * ONES)
    np.testing.assert_array_equal(reference(pte, ONES).outputs, [4 * ONES])
    cut = pte[:-17]
    with pytest.raises(InvalidProgramError, match="segment"):
        run(cut)


@pytest.mark.parametrize("length", [40, 64, 1000])
def test_longer_headers_have_fields_of_the_future(length: int) -> None:
    np.testing.assert_array_equal(run(with_header(with_constants(), length=length)), 4 * ONES)


HUGE = (2**31, 2**32, 2**63, 2**64 - 1, 2**64 - 128)


def wrong_headers() -> Iterator[tuple[bytes, str]]:
    """Yield files with a wrong number each, and what the error says."""
    bare, pte = plain(), with_constants()
    _, _, _, base, size = header_at(pte)
    for length in (0, 8, 23):
        yield with_header(pte, length=length), rf"header has {length} bytes, .* at least 24"
    for field in ("program_size", "segment_base", "segment_size"):
        for value in HUGE:
            yield with_header(pte, **{field: value}), rf"{value}.*the file has {len(pte)}"
    for room in (0, 7, 11):
        yield with_header(pte, program_size=room), f"{room} bytes of program"
    for root in (0, 7, 2**31, 2**32 - 1):
        for file in (bare, pte):
            yield struct.pack("<I", root) + file[4:], f"root table at {root} "
    for identifier in ("ET11", "ET13", "ETxx"):
        yield bare[:4] + identifier.encode() + bare[8:], f"'{identifier}', expected 'ET12'"
    yield with_header(pte, segment_base=base + 16), "the file has"
    yield with_header(pte, segment_size=size + 1), "the file has"
    yield with_header(pte, segment_base=len(pte)), "the file has"
    yield with_header(pte, segment_size=size - 16), "does not fit|no segments"
    yield with_header(pte, segment_base=0, segment_size=0), "no segments"


WRONG_HEADERS = list(wrong_headers())


@pytest.mark.parametrize("number", range(len(WRONG_HEADERS)))
def test_a_wrong_number_is_named(number: int) -> None:
    pte, match = WRONG_HEADERS[number]
    with pytest.raises(InvalidProgramError, match=match):
        run(pte)


# ---- other files -----------------------------------------------------------------------------


OTHER_FILES = {
    "tensor data": (b"\0\0\0\0FT01", "a .ptd file"),
    "bundled program": (b"\0\0\0\0BP08", "a bundled program"),
    "trace": (b"\0\0\0\0\0\0\0\0ED00", "an ETDump"),
    "zip": (b"PK\x03\x04", "a zip archive"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "pickle": (b"\x80\x02}q\x00", "a Python pickle"),
    "elf": (b"\x7fELF\x02\x01\x01\0", "a shared library"),
    "page": (b"<!DOCTYPE html><html>", "an HTML page"),
    "unknown text": (b"abcdWXYZ", "found identifier 'WXYZ'"),
    "noise": (bytes([1, 2, 3, 4, 250, 251, 252, 253]), "its identifier is unknown"),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_files_that_are_not_programs(kind: str) -> None:
    head, sentence = OTHER_FILES[kind]
    with pytest.raises(InvalidProgramError, match=sentence):
        run(head.ljust(256, b"\0"))
    with pytest.raises(InvalidArgumentError, match=sentence):
        run(head.ljust(40, b"\0"))


def test_no_bytes_at_all() -> None:
    for data in (b"", bytearray(), memoryview(b""), io.BytesIO()):
        with pytest.raises(InvalidArgumentError, match="empty"):
            run(data)
    with pytest.raises(InvalidArgumentError, match="3 bytes are too few"):
        run(b"abc")


# ---- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", list(Verification))
def test_truncation(level: Verification) -> None:
    """Every shorter length is rejected, with Minimal, too, for which the reference reads out of
    bounds; the message says that bytes are missing."""
    whole = with_constants()
    for pte in (plain(), whole):
        lengths = {*range(128), *range(128, len(pte), 7), *range(len(pte) - 40, len(pte))}
        for length in lengths - {*range(len(pte), 128)}:
            with pytest.raises(executorch_c.Error) as info:
                run(pte[:length], verification=level)
            assert not isinstance(info.value, MemoryError)
    for length in (64, 200, len(whole) // 2, len(whole) - 1):
        with pytest.raises(InvalidProgramError, match="it was cut off"):
            run(whole[:length], verification=level)


@pytest.mark.parametrize("extra", [1, 16, 4096])
def test_trailing_bytes(extra: int) -> None:
    """Files are padded, bundled and concatenated."""
    pte = with_constants() + b"\xff" * extra
    np.testing.assert_array_equal(run(pte), 4 * ONES)
    np.testing.assert_array_equal(reference(pte, ONES).outputs, [4 * ONES])


@pytest.mark.parametrize("level", list(Verification))
def test_every_byte_of_the_tables(level: Verification) -> None:
    """A changed byte gives another program or an error; tests/fuzz covers this systematically."""
    pte = plain()
    for at in range(0, len(pte), 3):
        for value in (0, 1, 0x80, 0xFF):
            changed = bytearray(pte)
            changed[at] = value
            try:
                run(bytes(changed), verification=level)
            except (executorch_c.Error, TypeError, ValueError):
                continue


# ---- segments --------------------------------------------------------------------------------


def test_segment_alignment() -> None:
    net = torch.nn.Linear(4, 3)
    x = torch.ones(2, 4)
    with torch.no_grad():
        wanted = net(x).numpy()
    for alignment in (8, 128, 4096):
        pte = export(net, x, segment_alignment=alignment)
        base = Runtime.get().load_program(pte).info()["segment_base"]
        assert base % alignment == 0
        np.testing.assert_allclose(load(pte)(x.numpy()), wanted, rtol=1e-5)


@pytest.mark.parametrize("alignment", [64, 4096])
def test_constant_alignment(alignment: int) -> None:
    net = torch.nn.Linear(4, 3)
    x = torch.ones(2, 4)
    pte = export(net, x, constant_tensor_alignment=alignment)
    with torch.no_grad():
        np.testing.assert_allclose(load(pte)(x.numpy()), net(x).numpy(), rtol=1e-5)


def test_constants_at_odd_offsets() -> None:
    """The exporter does not write these; the runtime copies such constants to aligned memory."""
    constants = Constants()
    plan = Plan()
    x, y, z = plan.input((4,)), plan.tensor((4,)), plan.output((4,))
    plan.call("aten::add.out", x, plan.constant(constants, 2 * ONES), 1, y)
    plan.call("aten::add.out", y, plan.constant(constants, 5 * ONES), 1, z)
    constants.buffers.insert(1, schema.Buffer(b"odd"))
    for value in plan.plan.values:
        if isinstance(value.val, schema.Tensor) and value.val.data_buffer_idx:
            value.val.data_buffer_idx += 1
    pte = build(plan, constants=constants, constant_tensor_alignment=1)
    offsets = Runtime.get().load_program(pte)
    np.testing.assert_array_equal(offsets.load_method("forward")(ONES), 8 * ONES)


def legacy(constants: Constants, plan: Plan) -> bytes:
    """Return the bare FlatBuffer: constants in constant_buffer, no header."""
    dataclass = program(plan, constants=constants)
    dataclass.constant_segment = None  # type: ignore[assignment]
    return bytes(_program_to_flatbuffer(dataclass, constant_tensor_alignment=16).data)


def test_legacy_constant_buffer() -> None:
    constants = Constants()
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    c = plan.constant(constants, 3 * ONES)
    plan.call("aten::add.out", x, c, 1, y)
    pte = legacy(constants, plan)
    assert b"eh00" not in pte
    np.testing.assert_array_equal(run(pte), 4 * ONES)
    assert reference(pte, ONES).outputs is None  # the wheel is built without them
    plan.plan.values[c].val.sizes = [5]
    with pytest.raises(InvalidProgramError, match=r"constant_buffer\[1\] has 16 bytes"):
        run(legacy(constants, plan))
    plan.plan.values[c].val.sizes = [4]
    plan.plan.values[c].val.data_buffer_idx = 9
    with pytest.raises(InvalidProgramError, match="data_buffer_idx 9, but the program has 2"):
        run(legacy(constants, plan))


def test_constants_in_two_places() -> None:
    constants = Constants()
    plan = Plan()
    plan.take(plan.constant(constants, ONES))
    dataclass = program(plan, constants=constants)
    dataclass.constant_segment = schema.SubsegmentOffsets(0, [0, 0])
    data = bytes(_program_to_flatbuffer(dataclass, constant_tensor_alignment=16).data)
    with pytest.raises(InvalidProgramError, match="expected one of them"):
        run(data)


def mm_add(a: torch.Tensor, x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, x) + b


def test_delegate_payloads_inline_and_in_segments() -> None:
    inputs = tuple(torch.randn(2, 2) for _ in range(3))
    for extract in (False, True):
        pte = export(
            mm_add, *inputs, partitioner=AddMulPartitionerDemo(), extract_delegate_segments=extract
        )
        info = Runtime.get().load_program(pte).info()
        delegate = info["methods"][0]["delegates"][0]
        assert delegate["id"] == "BackendWithCompilerDemo" and delegate["payload"] > 0
        assert any(s["size"] == delegate["payload"] for s in info["segments"]) == extract
        outputs = load(pte).execute([x.numpy() for x in inputs])
        np.testing.assert_allclose(outputs[0], mm_add(*inputs), rtol=1e-5)


def test_unused_segments_are_not_read() -> None:
    """An unused named-data segment with an impossible size is ignored."""
    from executorch.exir._serialize._named_data_store import NamedDataStore
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

    store = NamedDataStore()
    store.add_named_data("first", b"12345", alignment=8)
    store.add_named_data("second", bytes(1000), alignment=256)
    store.add_named_data("same", b"12345", alignment=8)
    file = PTEFile(program(adding(1)[0]), None, store.get_named_data_store_output())
    pte = bytes(serialize_pte_binary(file))
    np.testing.assert_array_equal(run(pte), 2 * ONES)
    info = Runtime.get().load_program(pte).info()
    named = {row["key"]: (row["size"], row["source"]) for row in info["named_data"]}
    assert named == {"first": (5, -1), "second": (1000, -1), "same": (5, -1)}
    assert (
        sum(
            b"12345" == pte[info["segment_base"] + s["offset"] :][: s["size"]]
            for s in info["segments"]
        )
        == 1
    )


# ---- where the bytes come from ---------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.pte"
    file.write_bytes(with_constants())
    return file


class Reader(io.RawIOBase):
    """A stream that cannot seek, such as a socket."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.data.readinto(buffer)


def test_sources(path: Path) -> None:
    data = path.read_bytes()
    with path.open("rb") as file, path.open("rb") as mapped:
        sources = [
            *(str(path), path, data, bytearray(data), memoryview(data), memoryview(data)[:]),
            mmap.mmap(mapped.fileno(), 0, access=mmap.ACCESS_READ),
            *(np.frombuffer(data, np.uint8), io.BytesIO(data), file, Reader(data)),
        ]
        for source in sources:
            np.testing.assert_array_equal(run(source), 4 * ONES)


class Pathlike:
    def __init__(self, path: Any) -> None:
        self.path = path

    def __fspath__(self) -> Any:
        return self.path


def test_path_like_objects(path: Path) -> None:
    for source in (Pathlike(str(path)), Pathlike(os.fsencode(path)), os.path.relpath(path)):
        np.testing.assert_array_equal(run(source), 4 * ONES)


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    empty = tmp_path / "empty.pte"
    empty.touch()
    cases = [
        (tmp_path / "none.pte", "No such file"),
        (tmp_path, "is a directory"),
        (fifo, "device or pipe"),
        (empty, "empty file"),
    ]
    for source, sentence in cases:
        with pytest.raises(AccessFailedError, match=sentence) as info:
            run(source)
        assert source.name in str(info.value)
        with pytest.raises(AccessFailedError):
            run(str(source))


def test_paths_with_odd_names(tmp_path: Path) -> None:
    for name in ("with space.pte", "ünïcödé.pte", os.fsdecode(b"\xff\xfe.pte"), "%s%n.pte"):
        file = tmp_path / name
        file.write_bytes(plain())
        np.testing.assert_array_equal(run(file), 2 * ONES)
        with pytest.raises(AccessFailedError):
            run(str(file) + ".missing")
    with pytest.raises(ValueError, match="null"):
        run("a\0b.pte")


def test_objects_that_are_not_sources() -> None:
    for source in (3, None, [1], object(), io.StringIO("text")):
        with pytest.raises(TypeError):
            run(source)
    with pytest.raises(TypeError, match="binary file|not str|bytes"):
        run(io.StringIO(""))
    with pytest.raises(BufferError):
        run(memoryview(bytes(256))[::2])


def test_bytes_are_used_in_place_and_kept_alive() -> None:
    constants = Constants()
    plan = Plan()
    plan.take(plan.constant(constants, 7 * ONES, name="weight"))
    data = build(plan, constants=constants)
    before = sys.getrefcount(data)
    method = load(data)
    assert sys.getrefcount(data) > before
    begin = np.frombuffer(data, np.uint8).ctypes.data
    assert begin <= method.get_attribute("weight").ctypes.data < begin + len(data)
    del method
    gc.collect()
    assert sys.getrefcount(data) == before
    method = load(bytes(bytearray(data)))  # the only reference to these bytes
    gc.collect()
    np.testing.assert_array_equal(method.execute([]), [7 * ONES])


def test_mapped_memory_is_kept_alive(path: Path) -> None:
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    method = load(memory)
    with pytest.raises(BufferError):
        memory.close()
    np.testing.assert_array_equal(method(ONES), 4 * ONES)
    del method
    gc.collect()
    memory.close()


def test_writable_buffers_are_copied() -> None:
    """Bytes that change after verification would be unsafe."""
    data = bytearray(with_constants())
    method = load(data)
    data[:] = bytes(len(data))
    data.clear()  # the buffer is not exported
    np.testing.assert_array_equal(method(ONES), 4 * ONES)


@pytest.mark.parametrize("shift", [1, 2, 4, 8, 15])
def test_misaligned_buffers(shift: int) -> None:
    """The reference rejects them."""
    data = memoryview(bytes(shift) + with_constants())[shift:]
    np.testing.assert_array_equal(run(data), 4 * ONES)
    array = np.frombuffer(data, np.uint8)
    np.testing.assert_array_equal(run(array), 4 * ONES)


def test_file_may_be_removed_while_in_use(path: Path) -> None:
    loaded = Runtime.get().load_program(path)
    path.unlink()
    np.testing.assert_array_equal(loaded.load_method("forward")(ONES), 4 * ONES)


def test_file_objects_are_read_from_their_position() -> None:
    pte = with_constants()
    stream = io.BytesIO(b"prefix" + pte)
    stream.seek(6)
    np.testing.assert_array_equal(run(stream), 4 * ONES)
    assert stream.tell() == 6 + len(pte)


def test_file_descriptors_are_closed(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    programs = [Runtime.get().load_program(path) for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    for opened in programs:
        opened.load_method("forward")(ONES)
    bad = path.with_name("bad.pte")
    bad.write_bytes(b"\0" * 100)
    for _ in range(50):
        with pytest.raises(executorch_c.Error):
            Runtime.get().load_program(bad)
    assert len(os.listdir("/proc/self/fd")) == before


def large(tmp_path: Path, megabytes: int) -> Path:
    """Return a program with a small constant in one method and a large one in another."""
    constants = Constants()
    plans = []
    for name, size in (("small", 4), ("large", megabytes << 18)):
        plan = Plan(name)
        plan.take(plan.constant(constants, np.full(size, 2, np.float32)))
        plans.append(plan)
    file = tmp_path / "large.pte"
    file.write_bytes(build(*plans, constants=constants))
    return file


def test_untouched_parts_of_a_file_are_not_read(tmp_path: Path) -> None:
    file = large(tmp_path, 16)
    loaded = Runtime.get().load_program(file)
    np.testing.assert_array_equal(loaded.load_method("small").execute([]), [2 * ONES])
    method = loaded.load_method("large")
    assert method.memory()["native"] < 1 << 20  # the weight is where it was
    result = mapping(file)
    assert result["Size"] >= 16 << 10
    assert result["Rss"] < 6 << 10  # the kernel maps whole ranges
    assert method.execute([])[0].size == 4 << 20
    del loaded, method
    gc.collect()
    assert mapping(file)["Size"] == 0


def test_mlock(tmp_path: Path) -> None:
    file = large(tmp_path, 1)
    allowed = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    enough = allowed == resource.RLIM_INFINITY or allowed >= 4 << 20
    loaded = Runtime.get().load_program(file, mlock="try")
    assert mapping(file)["Locked"] == (mapping(file)["Size"] if enough else 0)
    del loaded
    gc.collect()
    if enough:
        again = Runtime.get().load_program(file, mlock=True)
        assert again and mapping(file)["Locked"] >= 1 << 10
    for wrong in ("yes", 1, None):
        with pytest.raises(TypeError, match="mlock"):
            Runtime.get().load_program(file, mlock=wrong)


def test_mlock_beyond_the_limit(tmp_path: Path) -> None:
    file = large(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() == 0:
        # Root has no limit of locked memory.
        assert Runtime.get().load_program(file, mlock=True).method_names == {"small", "large"}
        return
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    try:
        with pytest.raises(AccessFailedError, match="lock"):
            Runtime.get().load_program(file, mlock=True)
        np.testing.assert_array_equal(load(file, "small", mlock="try").execute([]), [2 * ONES])
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


def test_files_round_trip_through_the_official_reader() -> None:
    """The official reader accepts and reproduces the files of these tests."""
    file = deserialize_pte_binary(with_constants())
    assert len(file.program.constant_buffer) == 4
