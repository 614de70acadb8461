"""Inputs of many calls: folders, patterns, functions, images, recordings; `validate` on them."""

import json
import struct
import wave
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executorch_c import cli, testing
from executorch_c._input_sets import is_set, names_many
from executorch_c.testing import InputCase, input_set, validate
from tests.python.small_programs import add_pte, clone_pte, load

Capture = pytest.CaptureFixture[str]
SHAPE = (2, 2)


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(SHAPE).astype(np.float32) for name in ("input_0", "input_1")}


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a program, five cases and their expected outputs."""
    (tmp_path / "add.pte").write_bytes(add_pte(SHAPE))
    for folder in ("inputs", "expected"):
        (tmp_path / folder).mkdir()
    for i in range(5):
        values = arrays(i)
        np.savez(tmp_path / "inputs" / f"case_{i}.npz", **values)  # type: ignore[arg-type]
        np.save(tmp_path / "expected" / f"case_{i}.npy", values["input_0"] + values["input_1"])
    (tmp_path / "loader.py").write_text(
        "import numpy as np\n"
        "def inputs():\n"
        "    for i in range(3):\n"
        "        x = np.arange(4, dtype=np.float32).reshape(2, 2) + i\n"
        "        yield x, x\n"
        "def expected():\n"
        "    return [x + y for x, y in inputs()]\n"
        "def endless():\n"
        "    while True:\n"
        "        yield from inputs()\n"
        "def fails():\n"
        "    raise RuntimeError('no data')\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(source: Any, **options: Any) -> list[str]:
    return [case.name for case in input_set(source, **options)]


def wrong_case(room: Path, number: int) -> None:
    """Plant a wrong expected output."""
    path = room / "expected" / f"case_{number}.npy"
    np.save(path, np.load(path) + np.float32([[0, 0], [0.5, 0]]))


# ---- sources ----------------------------------------------------------------------------------


def test_a_folder_is_sorted_by_name_without_hidden_files(room: Path) -> None:
    (room / "inputs" / ".hidden.npz").write_bytes(b"")
    (room / "inputs" / "notes.txt").write_text("x")
    cases = input_set("inputs")
    assert [case.name for case in cases] == [f"case_{i}.npz" for i in range(5)]
    assert cases.notes() == ["1 other file of inputs not read"]


def test_a_pattern_a_file_and_a_path_object(room: Path) -> None:
    assert names("inputs/case_[13].npz") == ["case_1.npz", "case_3.npz"]
    assert names(room / "inputs" / "case_2.npz") == ["case_2.npz"]
    assert len(names(room / "inputs")) == 5


def test_a_name_with_brackets_is_a_file_first(room: Path) -> None:
    np.save(room / "x[1].npy", np.ones(2))
    assert names("x[1].npy") == ["x[1].npy"] and not names_many("x[1].npy")


def test_a_function_that_loads(room: Path) -> None:
    assert names("loader.py:inputs") == ["0", "1", "2"]
    cases = input_set("loader.py:endless", max_cases=7)
    assert len(list(cases)) == 7
    assert cases.notes() == ["the first 7 cases of loader.py:endless (max_cases)"]


def test_lists_generators_and_loaders_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.ones(3)
    assert [case.value for case in input_set([(x,), (x, x)])] == [(x,), (x, x)]
    assert names((x, x) for _ in range(4)) == ["0", "1", "2", "3"]
    data = torch.utils.data.DataLoader(torch.arange(6.0).reshape(6, 1), batch_size=2)
    batches = [case.value for case in input_set(data)]
    assert [tuple(batch.shape) for batch in batches] == [(2, 1)] * 3
    assert is_set(data) and is_set(iter([1])) and is_set("x") and is_set(input_set([x]))
    assert not is_set([x]) and not is_set((x,)) and not is_set(x) and not is_set({"a": x})
    assert not is_set(torch.ones(2))


def test_cases_are_read_when_they_are_reached() -> None:
    made = list[int]()

    def calls() -> Iterator[tuple[int]]:
        for i in range(100):
            made.append(i)
            yield (i,)

    cases = iter(input_set(calls()))
    next(cases), next(cases)
    assert made == [0, 1]


def test_max_cases_says_what_is_left_out(room: Path) -> None:
    cases = input_set("inputs", max_cases=2)
    assert [case.name for case in cases] == ["case_0.npz", "case_1.npz"]
    assert cases.notes() == ["the first 2 of 5 cases of inputs (max_cases)"]
    assert input_set("inputs", max_cases=5).notes() == []


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("missing.npz", FileNotFoundError, "missing.npz"),
        ("empty", ValueError, "empty: no files that end with .npz"),
        ("*.onnx", ValueError, r"\*.onnx: no file has a name like this"),
        ("*.py", ValueError, "loader.py: expected a name that ends with .npz"),
        ("loader.py:input", ValueError, "has no function 'input', did you mean 'inputs'"),
        ("loader.py:fails", RuntimeError, "no data"),
        ([], ValueError, "the inputs has no cases"),
        (5, TypeError, "expected an iterable of calls"),
    ],
)
def test_a_source_without_cases_is_refused(
    room: Path, source: Any, error: type[Exception], message: str
) -> None:
    (room / "empty").mkdir()
    with pytest.raises(error, match=message):
        list(input_set(source))


def test_a_damaged_file_in_the_middle_is_named(room: Path) -> None:
    path = room / "inputs" / "case_2.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"inputs.case_2.npz: not an .npz or .npy file of arrays"):
        validate("inputs", "expected", program="add.pte")


def test_a_damaged_compressed_entry_is_named(room: Path) -> None:
    path = room / "inputs" / "case_2.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("x.npy", bytes(range(256)) * 4)
    data = bytearray(path.read_bytes())
    data[50:60] = bytes(10)
    path.write_bytes(data)
    with pytest.raises(ValueError, match="case_2.npz: not an .npz or .npy file of arrays"):
        validate("inputs", "expected", program="add.pte")


def test_an_outline_has_what_the_headers_say(tmp_path: Path) -> None:
    """Shapes and dtypes are those of the file, elements are zeros; what is damaged is refused."""
    known = {
        "matrix": np.ones((3, 2), np.float16),
        "empty": np.ones((0, 4)),
        "number": np.int64(7),
        "order": np.asfortranarray(np.ones((2, 5), np.bool_)),
    }
    np.savez_compressed(tmp_path / "a.npz", **known)  # type: ignore[arg-type]
    for name, value in known.items():
        np.save(tmp_path / f"{name}.npy", value)
    [case] = input_set(tmp_path / "a.npz")
    outline = replace(case, is_outline=True).arrays([])
    single = {
        name: replace(one, is_outline=True).arrays([])[""]
        for name in known
        for one in input_set(tmp_path / f"{name}.npy")
    }
    for arrays in (outline, single):
        assert {n: (a.shape, a.dtype) for n, a in arrays.items()} == {
            n: (np.shape(a), np.asarray(a).dtype) for n, a in known.items()
        }
        assert not any(a.any() for a in arrays.values())
    data = (tmp_path / "matrix.npy").read_bytes()
    (tmp_path / "matrix.npy").write_bytes(data[:-1])
    np.save(tmp_path / "number.npy", np.array([None]))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("matrix.npy", data[:-1])
    for name in ("matrix.npy", "number.npy", "a.npz"):
        [case] = input_set(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name}: not an .npz or .npy file"):
            replace(case, is_outline=True).arrays([])


def test_an_array_larger_than_its_file_is_refused_without_memory(room: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    header = header.ljust(117) + b"\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 8
    with zipfile.ZipFile(room / "inputs" / "case_2.npz", "w") as file:
        file.writestr("x.npy", data)
    with pytest.raises(ValueError, match="case_2.npz: not an .npz or .npy file of arrays"):
        validate("inputs", "expected", program="add.pte")


# ---- inputs of a program ----------------------------------------------------------------------


def inputs_of(case: InputCase, pte: bytes) -> Any:
    from executorch_c import Runtime

    [method] = Runtime.get().load_program(pte).info()["methods"]
    [value] = case.for_program(method)
    return value


def test_another_number_of_arrays_names_the_file(room: Path) -> None:
    np.savez(room / "inputs" / "case_2.npz", np.ones(SHAPE, np.float32))
    with pytest.raises(
        ValueError, match=r"case_2.npz: contains 1 array, the method takes 2 inputs"
    ):
        validate("inputs", "expected", program="add.pte")


def image(path: Path, mode: str, size: tuple[int, int]) -> np.ndarray:
    module = pytest.importorskip("PIL.Image")
    shape = size[::-1] if mode == "L" else (*size[::-1], len(mode))
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    module.fromarray(pixels, mode).save(path)
    return pixels


def test_an_image_has_the_layout_of_the_input(tmp_path: Path) -> None:
    pixels = image(tmp_path / "a.png", "RGB", (6, 4))
    [case] = input_set(tmp_path / "a.png", image_mean=(0.4, 0.5, 0.6), image_std=0.2)
    wanted = ((pixels / 255 - [0.4, 0.5, 0.6]) / 0.2).astype(np.float32)
    for shape, order in (
        ((1, 3, 4, 6), (2, 0, 1)),
        ((1, 4, 6, 3), (0, 1, 2)),
        ((3, 4, 6), (2, 0, 1)),
    ):
        value = inputs_of(case, clone_pte(shape, "float32"))
        assert value.dtype == np.float32 and value.shape == shape
        np.testing.assert_array_equal(value.reshape(shape[-3:]), wanted.transpose(order))
    value = inputs_of(case, clone_pte((1, 3, 4, 6), "uint8"))
    np.testing.assert_array_equal(value[0], pixels.transpose(2, 0, 1))


def test_a_gray_image(tmp_path: Path) -> None:
    pixels = image(tmp_path / "a.png", "L", (6, 4))
    [case] = input_set(tmp_path / "a.png", image_mean=0, image_std=1)
    for shape in ((4, 6), (1, 1, 4, 6), (1, 4, 6, 1)):
        value = inputs_of(case, clone_pte(shape, "float32"))
        np.testing.assert_allclose(value.reshape(4, 6), pixels / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "size", "shape", "dtype", "mean", "message"),
    [
        (
            "RGB",
            (6, 4),
            (1, 3, 6, 4),
            "float32",
            0,
            "the image has 6 x 4 pixels, the input 4 x 6: re",
        ),
        ("RGB", (6, 4), (1, 3, 4, 6), "float32", None, "pass --image-mean and --image-std"),
        ("RGB", (6, 4), (1, 1, 4, 6), "float32", 0, "has the mode RGB, the input 1 channels"),
        ("RGBA", (6, 4), (1, 3, 4, 6), "float32", 0, "has the mode RGBA, the input 3 channels"),
        ("RGB", (6, 4), (2, 3, 4, 6), "float32", 0, "an image has the shape"),
        ("RGB", (6, 4), (24,), "float32", 0, "an image has the shape"),
        ("RGB", (6, 4), (1, 3, 4, 6), "int64", 0, "pixels are no values of an input of int64"),
        ("RGB", (6, 4), (1, 3, 4, 6), "float32", (0, 0), "--image-mean has 2 numbers"),
    ],
)
def test_an_image_is_not_changed_to_fit(
    tmp_path: Path, mode: str, size: Any, shape: Any, dtype: str, mean: Any, message: str
) -> None:
    image(tmp_path / "a.png", mode, size)
    [case] = input_set(tmp_path / "a.png", image_mean=mean, image_std=1)
    with pytest.raises(ValueError, match=message) as error:
        inputs_of(case, clone_pte(shape, dtype))
    assert "a.png" in str(error.value)
    assert "loader.py:f" in str(error.value) or "mean has 2" in str(error.value)


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    image(tmp_path / "a.png", "RGB", (60, 40))
    data = (tmp_path / "a.png").read_bytes()
    for cut in (0, 20, len(data) // 2):
        (tmp_path / "a.png").write_bytes(data[:cut])
        [case] = input_set(tmp_path / "a.png", image_mean=0, image_std=1)
        with pytest.raises(ValueError, match=r"a.png: not a readable image"):
            inputs_of(case, clone_pte((1, 3, 40, 60), "float32"))


def recording(path: Path, width: int, channels: int, frames: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    top = 1 << (8 * width - 1)
    numbers = rng.integers(-top, top, (frames, channels))
    stored = numbers + (128 if width == 1 else 0)
    data = b"".join(
        int(one).to_bytes(width, "little", signed=width > 1) for one in stored.reshape(-1)
    )
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, 16000, frames, "NONE", ""))
        file.writeframes(data)
    return numbers


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_recording_is_from_minus_one_to_one(tmp_path: Path, width: int, channels: int) -> None:
    numbers = recording(tmp_path / "a.wav", width, channels, 50)
    shape = (1, 50) if channels == 1 else (1, 2, 50)
    [case] = input_set(tmp_path / "a.wav")
    value = inputs_of(case, clone_pte(shape, "float32"))
    wanted = (numbers / (1 << (8 * width - 1))).T.reshape(shape)
    np.testing.assert_allclose(value, wanted, atol=1e-7)


def test_a_recording_of_integers_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    numbers = recording(path, 2, 1, 50)
    [case] = input_set(path)
    np.testing.assert_array_equal(inputs_of(case, clone_pte((50,), "int16")), numbers[:, 0])
    with pytest.raises(ValueError, match=r"a.wav: the recording has the shape \(50,\)"):
        inputs_of(case, clone_pte((1, 60), "float32"))
    with pytest.raises(ValueError, match="samples of 16 bits are no values of an input of int32"):
        inputs_of(case, clone_pte((50,), "int32"))
    path.write_bytes(path.read_bytes()[:90])
    with pytest.raises(ValueError, match=r"a.wav: 23 of 50 samples are there"):
        inputs_of(case, clone_pte((50,), "int16"))
    path.write_bytes(b"RIFFxxxxOGG")
    with pytest.raises(ValueError, match=r"a.wav: not a WAV file"):
        inputs_of(case, clone_pte((50,), "int16"))


# ---- validate ---------------------------------------------------------------------------------


def test_validate_compares_files_by_their_names(room: Path) -> None:
    result = validate("inputs", "expected", program="add.pte")
    assert result.verdict == "match" and len(result) == 5 and "5 cases match" in str(result)
    wrong_case(room, 3)
    result = validate("inputs", "expected/*.npy", program="add.pte")
    assert result.verdict == "differ" and [case.name for case in result.failures] == ["case_3.npz"]
    assert "1 of 5 cases differ" in str(result) and "case_3.npz: output 0: 1 of 4" in str(result)
    with pytest.raises(AssertionError, match="1 of 5 cases differ"):
        result.raise_if_wrong()
    assert max(map(len, str(result).splitlines())) <= 80
    rows = json.loads(result.to_json())["cases"]
    assert [row["verdict"] for row in rows] == ["match"] * 3 + ["differ", "match"]
    assert "case_3.npz" in result.to_html() and "case_3.npz" in result._repr_html_()


def test_validate_takes_what_python_has(room: Path) -> None:
    calls = [tuple(arrays(i).values()) for i in range(5)]
    expected = [x + y for x, y in calls]
    method = load(add_pte(SHAPE), "forward")
    assert validate(calls, expected, program="add.pte")
    assert validate(iter(calls), iter(expected), program=method)
    assert validate("loader.py:inputs", "loader.py:expected", program="add.pte")
    assert not validate(calls, expected[::-1], program="add.pte")


@pytest.mark.parametrize("remove", ["inputs", "expected"])
def test_a_case_without_a_partner_is_refused(room: Path, remove: str) -> None:
    ending = "npz" if remove == "inputs" else "npy"
    (room / remove / f"case_3.{ending}").unlink()
    with pytest.raises(ValueError, match="case_3.* has no"):
        validate("inputs", "expected", program="add.pte")
    with pytest.raises(ValueError, match="has no expected outputs|has more cases"):
        calls = [tuple(arrays(i).values()) for i in range(2 if remove == "inputs" else 4)]
        validate(calls, [np.ones(SHAPE, np.float32)] * 3, program="add.pte")


def test_a_case_that_raises_is_a_row(room: Path) -> None:
    np.savez(
        room / "inputs" / "case_1.npz", np.ones((3, 3), np.float32), np.ones((3, 3), np.float32)
    )
    result = validate("inputs", "expected", program="add.pte")
    assert result.verdict == "differ" and result[1].verdict == "error"
    assert "case_1.npz: " in str(result) and len(result.failures) == 1


def test_requirements_are_about_the_worst_case_and_shares_about_all(room: Path) -> None:
    wrong_case(room, 3)
    loose = validate("inputs", "expected", program="add.pte", require="max_abs<=1")
    assert loose.verdict == "match" and "by requirement (by default: differ)" in str(loose)
    [row] = loose.requirements()
    assert (row.case, row.value, row.limit) == ("case_3.npz", 0.5, "<= 1")
    shares = validate("inputs", "expected", program="add.pte", require="top1>=0.8")
    [row] = shares.requirements()
    assert shares.verdict == "match" and 0.8 <= row.value <= 1
    tight = validate("inputs", "expected", program="add.pte", require="max_abs<=0.4")
    assert tight.verdict == "differ" and [one.name for one in tight.failures] == ["case_3.npz"]


def test_of_many_cases_the_worst_are_printed(room: Path) -> None:
    calls = [tuple(arrays(i).values()) for i in range(50)]
    expected = [x + y + np.float32(i == 41) for i, (x, y) in enumerate(calls)]
    result = validate(calls, expected, program="add.pte")
    text = str(result)
    assert "(20 of 50 cases: those with the largest errors)" in text
    assert any(line.split()[:2] == ["41", "differ"] for line in text.splitlines())
    assert len(json.loads(result.to_json())["cases"]) == 50


# ---- commands ---------------------------------------------------------------------------------


def run(capsys: Capture, *args: str) -> tuple[int, str, str]:
    code = cli.main(list(args))
    return (code, *capsys.readouterr())


def test_validate_of_a_folder(room: Path, capsys: Capture) -> None:
    wrong_case(room, 3)
    args = ["validate", "add.pte", "--inputs", "inputs", "--expect", "expected"]
    code, out, err = run(capsys, *args)
    assert code == 3 and "1 of 5 cases differ" in out and not err
    assert f"--inputs {Path('inputs', 'case_3.npz')}" in out.splitlines()[-2]
    code, out, _ = run(capsys, *args, "--require", "max_abs<=0.5", "--json")
    figures = json.loads(out)
    assert code == 0 and figures["by_default"] == "differ"
    assert figures["requirements"][0]["limit"] == "<= 0.5"
    code, out, _ = run(capsys, *args, "--max-cases", "2", "-o", "r.html")
    assert code == 0 and "first 2 of 5 cases of inputs" in out and (room / "r.html").exists()


def test_validate_of_one_file_takes_requirements(room: Path, capsys: Capture) -> None:
    wrong_case(room, 3)
    args = ["validate", "add.pte", "--inputs", "inputs/case_3.npz", "--expect"]
    code, out, _ = run(capsys, *args, "expected/case_3.npy")
    assert code == 3 and "outputs differ" in out
    code, out, _ = run(capsys, *args, "expected/case_3.npy", "--require", "p50_abs<=0")
    assert code == 0 and "outputs match, by requirement (by default: differ)" in out


def test_a_metric_of_a_file(room: Path, capsys: Capture) -> None:
    (room / "mine.py").write_text(
        "def worst(actual, expected):\n    return abs(actual - expected).max()\n"
    )
    wrong_case(room, 3)
    args = ["validate", "add.pte", "--inputs", "inputs", "--expect", "expected"]
    code, out, _ = run(capsys, *args, "--metric", "mine.py:worst")
    assert code == 3 and "worst" in out and "0.5" in out
    code, out, _ = run(capsys, *args, "--metric", "mine.py:worst", "--require", "worst<=0.5")
    assert code == 0
    code, _, err = run(capsys, *args, "--metric", "mine.py:best")
    assert code == 1 and "has no function 'best'" in err


def test_a_wrong_requirement_is_a_usage_error(room: Path, capsys: Capture) -> None:
    args = ["validate", "add.pte", "--inputs", "inputs", "--expect", "expected"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*args, "--require", "cosin>=0.9"])
    assert stop.value.code == 2 and "did you mean 'cosine'" in capsys.readouterr().err


def test_a_command_of_one_case_refuses_a_folder(room: Path, capsys: Capture) -> None:
    code, _, err = run(capsys, "run", "add.pte", "--inputs", "inputs")
    assert code == 1 and "inputs: expected one .npz or .npy file" in err


def test_the_names_are_public() -> None:
    for name in ("input_set", "validate", "InputSet", "CaseComparisons"):
        assert getattr(testing, name).__module__ == "executorch_c.testing"
        assert name in testing.__all__
