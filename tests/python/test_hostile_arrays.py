"""Hostile .npz and .npy files: one error each, in bounded memory; pickles are never loaded."""

import io
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from executorch_c._input_files import read_arrays
from executorch_c.blame.device import Expected, read_runs
from tests.fuzz.readers import check_cases

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def npy(shape: object, descr: object = "<f4", data: bytes = b"") -> bytes:
    """Return an .npy file with any header."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data


def archive(**entries: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return out.getvalue()


class Planted:
    """A pickle that writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


HOSTILE = {
    "100 GB": (npy((25_000_000_000,)), ""),
    "2**62": (npy((1 << 62,)), ""),
    "overflow": (npy((1 << 32,) * 3), ""),
    "negative": (npy((-1,)), ""),
    "no integer": (npy((1.5,)), "shape is not valid"),
    "deep": (npy("(" * 5000), ""),
    "a long header": (npy((1,) * 9000), "another kind of file, or Python objects"),
    "rank": (npy((1,) * 99), ""),
    "objects": (npy((1,), "|O", b"x" * 8), "another kind of file, or Python objects"),
    "objects inside": (npy((1,), [("a", "|O")], b"x" * 8), "Python objects"),
    "no dtype": (npy((1,), 3), ""),
    "cut": (npy((100,), data=bytes(40)), ""),
    "no array": (b"hello", ""),
}


@pytest.mark.parametrize("kind", [".npz", ".npy"])
@pytest.mark.parametrize(("data", "match"), HOSTILE.values(), ids=HOSTILE)
def test_files(data: bytes, match: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{kind}"
    path.write_bytes(data if kind == ".npy" else archive(**{"x.npy": data}))
    with pytest.raises(ValueError, match=f"a{kind}: not an .npz or .npy file of arrays .*{match}"):
        read_arrays(str(path))


def test_an_entry_that_is_no_array(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(archive(output_0=b"hello"))
    expected = Expected(("y",), (X,))
    with pytest.raises(ValueError, match="a.npz: not an .npz or .npy file of arrays"):
        read_runs([tmp_path / "a.npz"], expected)


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    data = pickle.dumps(Planted(tmp_path / "planted"))
    for name, content in (
        ("a.npy", data),
        ("a.npz", archive(**{"x.npy": npy((1,), "|O", data)})),
        ("b.npz", archive(x=data)),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=name):
            read_arrays(str(tmp_path / name))
    assert not (tmp_path / "planted").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executorch_c._input_files.MAX_UNPACKED", 1 << 20)
    zeros = np.zeros(1 << 19, np.float32)
    np.savez_compressed(tmp_path / "bomb.npz", x=zeros)
    with pytest.raises(ValueError, match=r"it unpacks to 2,097,\d+ bytes, at most 1,048,576"):
        read_arrays(str(tmp_path / "bomb.npz"))
    np.savez(tmp_path / "large.npz", x=zeros)  # as large as its arrays
    np.testing.assert_array_equal(read_arrays(str(tmp_path / "large.npz"))["x"], zeros)


def cases(folder: Path) -> Callable[[int], bool]:
    """Return a function that reads the damaged arrays of a number, and returns if it can."""
    path, files = folder / "a.npz", []
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, x=X, y=np.array(3), z=np.array([True]))
        files.append(out.getvalue())
    files.append(npy((2, 3), data=X.tobytes()))

    def case(number: int) -> bool:
        pick = random.Random(number)
        data = bytearray(pick.choice(files))
        for _ in range(pick.choice((1, 1, 2, 8))):
            at = pick.randrange(len(data))
            data[at] = pick.choice((0, 1, 0x28, 0x7F, 0xFF, pick.randrange(256)))
        path.unlink(missing_ok=True)
        path.write_bytes(data[: pick.randrange(len(data))] if pick.random() < 0.1 else data)
        try:
            arrays = read_arrays(str(path))
        except ValueError as error:
            assert str(error).startswith(f"{path}: not an .npz or .npy file of arrays (")
            return False
        assert sum(array.nbytes for array in arrays.values()) < 1 << 20
        return True

    return case


def test_random_damage(tmp_path: Path) -> None:
    check_cases(cases(tmp_path), 300)
