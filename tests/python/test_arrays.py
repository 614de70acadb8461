"""NumPy arrays: accepted inputs, outputs, out=, lifetimes."""

import array
import os
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import InvalidArgumentError, Method
from tests import process
from tests.python import small_programs
from tests.python.small_programs import CHANNELS_LAST, DTYPES, IMAGE, channels_last, clone, values

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16 = ml_dtypes.bfloat16


@pytest.fixture(scope="module")
def add() -> Method:
    return small_programs.load(small_programs.add_pte(), "forward")


# ---- dtypes and layouts ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4), (2, 1, 3, 2)])
def test_every_dtype_and_rank(dtype: str, shape: tuple[int, ...]) -> None:
    x = values(shape, dtype)
    y = clone(shape, dtype)(x)
    assert y.dtype == x.dtype
    assert_array_equal(y, x, strict=True)


def unaligned() -> np.ndarray:
    x = np.zeros(17, np.uint8)[1:].view(np.float32)
    assert not x.flags.aligned
    x[:] = [1, 2, 3, 4]
    return x


HALVES = np.array([1.5, -2, 3e38, np.nan, 0, 1], BF16).reshape(2, 3)
GRID, WIDE = values((4, 6), "float32"), values((4, 6), "float64")
VIEWS = {
    "steps": GRID[::2, ::3],
    "negative steps": GRID[::-2, ::-3],
    "a broadcast element": np.broadcast_to(GRID[:1, :1], (2, 2)),
    "no strides": np.broadcast_to(GRID[0, 0], (2, 2)),
    "transposed": GRID[:2, :2].T,
    "Fortran order": np.asfortranarray(GRID[:2, :2]),
}
ACCEPTED: dict[str, tuple[str, Any, Any]] = {
    "bfloat16": ("bfloat16", HALVES, HALVES),
    "flat bytes of bfloat16": ("bfloat16", HALVES.tobytes(), HALVES),
    **{
        f"byte order of {dtype}": (
            dtype,
            values((2, 3), dtype).astype(order),
            values((2, 3), dtype),
        )
        for dtype, order in (("int16", ">i2"), ("float32", ">f4"), ("complex128", ">c16"))
    },
    "unaligned": ("float32", unaligned(), unaligned()),
    **{name: ("float32", view, view) for name, view in VIEWS.items()},
    "no elements": ("int64", np.zeros((0, 3), np.int64), np.zeros((0, 3))),
    "a scalar": ("float32", np.float32(2.5), 2.5),
    "an int": ("float32", 3, 3),
    "a complex number": ("complex64", 3j, 3j),
    "lists of numbers": ("float32", [[1, 2], [True, 0.5]], [[1, 2], [1, 0.5]]),
    "a list of ints": ("uint8", [0, 255], [0, 255]),
    "halves from numbers": ("bfloat16", [1, 2.5], [1, 2.5]),
    "an empty list": ("int32", [], []),
    "a large int": ("uint64", [2**64 - 1], np.array([2**64 - 1], np.uint64)),
    "array.array": ("float32", array.array("f", [1, 2, 3]), [1, 2, 3]),
    "bytes": ("uint8", b"abc", list(b"abc")),
    "bytearray": ("uint8", bytearray(b"abc"), list(b"abc")),
    "memoryview": ("float64", memoryview(WIDE[::2, ::2]), WIDE[::2, ::2]),
}
"""A dtype, an input and the tensor that it is."""


@pytest.mark.parametrize("name", ACCEPTED)
def test_inputs_that_are_tensors(name: str) -> None:
    dtype, value, expected = ACCEPTED[name]
    expected = np.asarray(expected, BF16 if dtype == "bfloat16" else dtype)
    y = clone(expected.shape, dtype)(value)
    assert type(y) is np.ndarray and (y.dtype, y.shape) == (expected.dtype, expected.shape)
    assert y.tobytes() == expected.tobytes(), (y, expected)  # NumPy 1 has no NaN of bfloat16


@pytest.mark.parametrize(
    ("dtype", "value", "match"),
    [
        ("bfloat16", np.zeros(2, np.uint16), "dtype uint16, expected bfloat16"),
        ("bfloat16", b"abc", "uint8, expected bfloat16"),
        ("int64", [1.5, 2], "float64, which are not cast to int64"),
        ("float32", [1j, 2], "complex128, which are not cast to float32"),
        ("bool", [1, 0], "int64, which are not cast to bool"),
        ("uint8", [1, 256], "an int that does not fit in uint8"),
        ("uint8", [1, -1], "an int that does not fit in uint8"),
        ("float32", ["a", "b"], "not cast to float32"),
        ("float32", [[1], [2, 3]], "inhomogeneous"),
        ("float32", [10**30, None], "object"),
    ],
)
def test_values_that_do_not_fit(dtype: str, value: Any, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"input 0: .*{match}"):
        clone((2,), dtype)(value)


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
from executorch_c import Runtime
method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
bits = np.array([0x3FC0, 0xC000], np.uint16)
out = method(bits)
assert out.dtype == np.uint16 and (out == bits).all(), out
assert (method([1.5, -2]) == bits).all()
assert method.metadata.input_tensor_meta(0).numpy_dtype == np.uint16
"""


def test_bfloat16_without_ml_dtypes_is_uint16(tmp_path: Any) -> None:
    path = tmp_path / "bf16.pte"
    path.write_bytes(small_programs.clone_pte((2,), "bfloat16"))
    root = os.path.dirname(os.path.dirname(executorch_c.__file__))
    env = {**os.environ, "PYTHONPATH": root}
    process.python("-c", WITHOUT_ML_DTYPES, str(path), env=env, cwd=root)


@pytest.mark.parametrize("order", [None, CHANNELS_LAST])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, channels_last])
def test_channels_last_is_never_misread(order: Any, layout: Callable[..., np.ndarray]) -> None:
    x = layout(values(IMAGE, "float32"))
    y = clone(IMAGE, "float32", order)(x)
    assert_array_equal(y, x, strict=True)
    expected = channels_last(x) if order else np.ascontiguousarray(x)
    assert y.strides == expected.strides


def test_readonly_inputs_are_not_modified(add: Method) -> None:
    x = values((2, 2), "float32")
    x.flags.writeable = False
    before = x.copy()
    assert_array_equal(add(x, x), before * 2)
    assert_array_equal(x, before)


# ---- other things as tensors ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars_keep_their_dtype(dtype: str) -> None:
    scalar = values((1,), dtype)[0]
    assert clone((), dtype)(scalar) == scalar
    other = np.float32(1) if dtype != "float32" else np.float64(1)
    with pytest.raises(InvalidArgumentError, match=f"dtype {other.dtype}, expected {dtype}"):
        clone((), dtype)(other)


class Interface:
    """An object with only __array_interface__."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.__array_interface__ = x.__array_interface__


class WithArray:
    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.x


def test_array_interface_and_array(add: Method) -> None:
    x = values((2, 2), "float32")
    assert_array_equal(add(Interface(x), WithArray(x)), x + x)
    with pytest.raises(InvalidArgumentError, match="dtype float64"):
        add(x, WithArray(x.astype(float)))
    x = np.ma.masked_array(np.ones((2, 2), np.float32), mask=[[0, 1], [0, 0]])
    with pytest.raises(InvalidArgumentError, match="masked array"):
        add(x, x)


class OldDlpack:
    """A library from before DLPack 1.0: no max_version, no __dlpack_device__."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __dlpack__(self) -> Any:
        return self.x.__dlpack__()


VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
needs_versions = pytest.mark.skipif(
    not VERSIONED, reason="NumPy has no versioned capsules before 2.1, nor read-only ones"
)


class NewDlpack(OldDlpack):
    """A library with max_version; if NumPy has no versioned capsules, it returns the older kind."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        assert kwargs == {"max_version": (1, 0)}
        return self.x.__dlpack__(**(kwargs if VERSIONED else {}))


class GpuDlpack(OldDlpack):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


class BadDlpack(OldDlpack):
    def __dlpack__(self) -> Any:
        return 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [OldDlpack, NewDlpack])
def test_dlpack(kind: type[OldDlpack], dtype: str) -> None:
    x = values((4, 6), dtype)[::2, ::-2]
    assert_array_equal(clone((2, 3), dtype)(kind(x)), x)


@needs_versions
def test_dlpack_of_readonly_memory() -> None:
    x = values((3,), "float32")
    x.flags.writeable = False
    assert_array_equal(clone((3,), "float32")(NewDlpack(x)), x)


def test_dlpack_that_cannot_be_read() -> None:
    x = values((3,), "float32")
    method = clone((3,), "float32")
    with pytest.raises(InvalidArgumentError, match="input 0: .*device type 2, not in CPU memory"):
        method(GpuDlpack(x))
    with pytest.raises(InvalidArgumentError, match="returned int, not a capsule"):
        method(BadDlpack(x))


def test_dlpack_releases_its_memory() -> None:
    x = values((3,), "float32")
    alive = weakref.ref(x)
    clone((3,), "float32")(NewDlpack(x))
    del x
    assert alive() is None


class Shared(OldDlpack):
    """An object that returns the same capsule at every call."""

    def __init__(self, x: np.ndarray, **options: Any) -> None:
        self.capsule = x.__dlpack__(**options)

    def __dlpack__(self) -> Any:
        return self.capsule


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"max_version": (1, 0)}, marks=needs_versions)]
)
def test_dlpack_capsules_are_consumed(options: Any) -> None:
    """The consumer of a capsule owns its tensor: nobody else may read it."""
    x = values((3,), "float32")
    method = clone((3,), "float32")
    shared = Shared(x, **options)
    assert_array_equal(method(shared), x)
    assert "used_dltensor" in repr(shared.capsule)
    with pytest.raises(InvalidArgumentError, match='capsule "used_dltensor.*once'):
        method(shared)
    alive = weakref.ref(x)
    del x
    assert alive() is None, "the deleter is called when the call is over"


def test_rejected_dlpack_capsules_are_not_consumed() -> None:
    x = values((3,), "float32")
    shared = Shared(x)
    with pytest.raises(InvalidArgumentError):
        clone((2, 2), "float32")(shared)  # consumed, with another shape
    alive = weakref.ref(x)
    del x, shared
    assert alive() is None
    x = np.array(["2020-01-01"], "datetime64[D]").view(np.int64)
    shared = Shared(x)
    with pytest.raises(InvalidArgumentError):
        clone((1,), "float32")(shared)
    alive = weakref.ref(x)
    del x, shared
    assert alive() is None


def test_torch_tensors(add: Method) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(4.0).reshape(2, 2)
    assert_array_equal(add(x, x.T), (x + x.T).numpy())
    bf16 = torch.tensor([1.5, -2]).bfloat16()
    assert_array_equal(clone((2,), "bfloat16")(bf16).astype(float), [1.5, -2])
    image = torch.randn(IMAGE).to(memory_format=torch.channels_last)
    assert_array_equal(clone(IMAGE, "float32")(image), image.numpy())
    with pytest.raises(InvalidArgumentError, match=r"input 1: .*detach"):
        add(x, x.clone().requires_grad_())
    assert_array_equal(add(x, torch.nn.Parameter(x).detach()), (x + x).numpy())


# ---- sequences of inputs ----


def test_a_single_array_is_one_input() -> None:
    method = clone((3,), "float32")
    x = values((3,), "float32")
    for inputs in (x, [x], (x,), iter([x]), array.array("f", x), NewDlpack(x), WithArray(x)):
        assert_array_equal(method.execute(inputs)[0], x)


def test_inputs_that_are_not_a_sequence(add: Method) -> None:
    for inputs in ({0: 1, 1: 2}, {1, 2}, object()):
        with pytest.raises(TypeError):
            add.execute(inputs)
    with pytest.raises(TypeError, match="inputs"):
        add.execute()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'ouT'"):
        add.execute([], ouT=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'inputs'"):
        add(inputs=[])  # type: ignore[call-arg]


def test_many_inputs() -> None:
    pte = small_programs.kinds_pte(list(range(40)), list(range(30)))
    method = small_programs.load(pte, "forward")
    x = values((2,), "float32")
    assert method.execute([x, *range(40)])[1:] == list(range(30))
    assert method(x, *range(40))[1:] == tuple(range(30))


# ---- messages ----


def test_wrong_number_of_inputs_says_what_is_expected(add: Method) -> None:
    for inputs in ([], [1], [1, 2, 3]):
        with pytest.raises(InvalidArgumentError) as error:
            add.execute(inputs)
        one = "a float32 array of shape (2, 2)"
        assert f"takes 2 inputs: {one}, {one}" in str(error.value)
        assert f"but got {len(inputs)}" in str(error.value)
    method = small_programs.load(small_programs.dynamic_pte(), "forward")
    with pytest.raises(InvalidArgumentError, match=r"shape \(<=4, <=2\)"):
        method.execute([])


def test_wrong_inputs_name_the_input(add: Method) -> None:
    x = values((2, 2), "float32")
    cases: list[tuple[Any, str]] = [
        (x.astype(np.int64), "input 1: dtype int64, expected float32"),
        (x.astype("M8[s]"), "input 1: found an array of dtype datetime64"),
        (x.astype(object), "input 1: found an array of dtype object"),
        (x[0], "input 1: shape (2,) has 1 dimensions, expected 2"),
        (None, "input 1: found NoneType; expected a float32 array of shape (2, 2)"),
        ("ab", "input 1: found str; expected a float32 array"),
        (object(), "input 1: found object; expected a float32 array"),
    ]
    for value, text in cases:
        with pytest.raises(InvalidArgumentError) as error:
            add(x, value)
        assert text in str(error.value)
    with pytest.raises(executorch_c.NotSupportedError, match=r"input 1: shape \(2, 3\)"):
        add(x, np.ones((2, 3), np.float32))
    assert_array_equal(add(x, x), x + x)


def test_an_exception_of_foreign_code_is_kept(add: Method) -> None:
    class Interrupted:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(np.ones((2, 2), np.float32), Interrupted())


# ---- inputs and outputs other than tensors ----

INPUTS = [3, 2.5, True, "hi", None]


@pytest.fixture(scope="module")
def kinds() -> Method:
    outputs = [None, 7, 2.5, False, "text", [1, 2], [1.5], [True, False], [..., ...], [..., None]]
    return small_programs.load(small_programs.kinds_pte(INPUTS, outputs), "forward")


def test_kinds_of_outputs(kinds: Method) -> None:
    x = np.array([1, 2], np.float32)
    out = kinds.execute([x, *INPUTS])
    assert out[1:9] == [None, 7, 2.5, False, "text", [1, 2], [1.5], [True, False]]
    assert [type(item) for item in out[2:6]] == [int, float, bool, str]
    (one, two), (three, none) = out[9:]
    assert none is None
    for item in (one, two, three):
        assert_array_equal(item, x)
        assert item.flags.owndata
    assert isinstance(kinds(x, *INPUTS), tuple)


def test_numpy_scalars_as_numbers(kinds: Method) -> None:
    x = np.zeros(2, np.float32)
    kinds(x, np.int32(3), np.float32(2.5), np.bool_(True), "hi", None)
    kinds(x, np.uint8(3), 2.5 + 1e-6, True, "hi", None)


@pytest.mark.parametrize(
    ("index", "value", "match"),
    [
        *((1, 4, "4"), (1, True, "found True; expected the int 3")),
        *((1, 3.0, "found 3.0; expected the int 3"), (1, 2**70, "expected the int 3")),
        *((2, 2.6, "2.6"), (2, "2.5", "found '2.5'; expected the float 2.5")),
        *((3, False, "input 3"), (3, 1, "found 1; expected the bool True"), (4, "ho", "'ho'")),
        (4, b"hi", "found bytes; expected the str 'hi'"),
        *((4, "h\udcff", "surrogates not allowed"), (5, 0, "found int; expected None")),
    ],
)
def test_values_must_be_the_traced_ones(kinds: Method, index: int, value: Any, match: str) -> None:
    inputs = [np.zeros(2, np.float32), *INPUTS]
    inputs[index] = value
    with pytest.raises(ValueError, match=match):
        kinds.execute(inputs)
