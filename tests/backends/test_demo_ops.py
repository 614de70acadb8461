"""Operators of a plug-in: the table, the demo plug-in, entry points."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Runtime, register_operator, unregister_operator
from tests import process
from tests.backends.fake_backend import Tensor, capsule
from tests.python.custom_ops import UNARY, X, load, nothing_stays, pte
from tests.plans import BOUNDED
from tests.single_op import Out

__all__ = ["nothing_stays"]  # autouse fixture


@pytest.fixture
def demo() -> Iterator[Any]:
    """Yield the capsule of the demo plug-in and unregister its operators afterwards."""
    module = pytest.importorskip("executorch_c._backend_demo_ops")
    yield module.operators()
    for row in executorch_c.operators():
        if row["origin"] == "executorch_c demo":
            unregister_operator(row["name"])


def test_operators_in_c(demo: Any) -> None:
    executorch_c.register_operators(demo)
    executorch_c.register_operators(demo)  # registering again is allowed
    table = {row["name"]: row["origin"] for row in executorch_c.operators()}
    assert table["demo::scale.out"] == table["demo::positive.out"] == "executorch_c demo"
    method = load("demo::scale.out", X, 3, Out((2, 3)))  # an Int instead of a float
    assert_array_equal(method(X), X * 3)
    x = np.array([1, -2, 3, -4, 5], np.float32)
    method = load("demo::positive.out", x, Out((3,), dynamism=BOUNDED))
    assert_array_equal(method(x), [1, 3, 5])
    assert_array_equal(method(-x), [2, 4])
    with pytest.raises(
        executorch_c.NotSupportedError,
        match=r"instruction 0: demo::positive.out: "
        r"shape \(5,\) has 5 elements, the program's upper bound is 3",
    ):
        method(abs(x))
    method = load("demo::scale.out", X.astype("f8"), 1.0, Out((2, 3)))
    with pytest.raises(executorch_c.InvalidArgumentError, match="dtypes 7 and 6, expected float32"):
        method(X.astype("f8"))
    unregister_operator("demo::scale.out")
    with pytest.raises(executorch_c.OperatorMissingError):
        load("demo::scale.out", X, 3, Out((2, 3)))


def test_a_plug_in_takes_no_place(demo: Any) -> None:
    """If one operator of a plug-in is invalid, none is registered."""
    schema = "demo::positive.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
    register_operator(schema, lambda x: x)
    with pytest.raises(executorch_c.AlreadyRegisteredError) as caught:
        executorch_c.register_operators(demo)
    assert "executorch_c demo: operator demo::positive.out is already registered" in str(
        caught.value
    )
    assert "demo::scale.out" not in Runtime.get().operator_registry.operator_names
    unregister_operator("demo::positive.out")
    executorch_c.register_operators(demo)
    register_operator(schema, lambda x: x * 2, override=True)
    x = np.ones(3, np.float32)
    assert_array_equal(load("demo::positive.out", x, Out((3,)))(x), x * 2)
    unregister_operator("demo::positive.out")
    assert_array_equal(load("demo::positive.out", x, Out((3,)))(x), x)


@pytest.mark.parametrize("capsule", [None, "text", 3])
def test_objects_that_are_not_capsules(capsule: object) -> None:
    with pytest.raises(TypeError, match='expected a capsule named "executorch_c.operators"'):
        executorch_c.register_operators(capsule)


class Value(ctypes.Union):
    """Mirror of the union in ec_backend_arg: lists and strings are a pointer and a count."""

    _fields_ = [
        *(("tensor", Tensor), ("i", ctypes.c_int64), ("d", ctypes.c_double)),
        *(("b", ctypes.c_bool), ("list", ctypes.c_size_t * 2)),
    ]


class Argument(ctypes.Structure):
    """Mirror of ec_backend_arg."""

    _fields_ = [("kind", ctypes.c_uint32), ("value", Value), ("slot", ctypes.c_void_p)]


def read(arg: Argument) -> Any:
    """Return an argument as a Python value; for a tensor, its first size."""
    address, count = arg.value.list
    plain = {
        0: lambda: None,
        1: lambda: ctypes.c_int64.from_address(arg.value.tensor.sizes).value,
        3: lambda: arg.value.d,
        2: lambda: ctypes.string_at(address, count),
        4: lambda: arg.value.i,
        5: lambda: arg.value.b,
    }
    if arg.kind in plain:
        return plain[arg.kind]()
    return arg.kind, [read(item) for item in (Argument * count).from_address(address)]


RUN = ctypes.CFUNCTYPE(
    ctypes.c_uint32, *[ctypes.c_void_p] * 3, ctypes.POINTER(Argument), ctypes.c_size_t
)


def test_all_kinds_of_arguments() -> None:
    seen: list[Any] = []

    def run(_self: int, _host: int, _call: int, args: Any, count: int) -> int:
        seen.extend(read(args[i]) for i in range(count))
        return len(seen) // count - 1  # later calls fail without a message

    function = RUN(run)
    schema = (
        b"t::k.out(int n, float f, bool b, Scalar s, Tensor? none, str t, int[] ns, float[] fs, "
        b"bool[] bs, Tensor[] ts, Tensor?[] os, *, Tensor(a!) out) -> ()"
    )
    executorch_c.register_operators(
        table(schema=schema, run=ctypes.cast(function, ctypes.c_void_p).value)
    )
    try:
        lists = [1, 2], [0.5], [True, False], [X, X[:1]], [X, None]
        method = load("t::k.out", *(True, 2, 3, 4.5, None, "text"), *lists, Out((2, 3)))
        inputs = [X, X[:1], X]
        method.execute(inputs)
        with pytest.raises(executorch_c.InternalError, match="t::k.out: failed without a sentence"):
            method.execute(inputs)
    finally:
        unregister_operator("t::k.out")
    assert seen[:6] == [1, 2.0, True, 4.5, None, b"text"] and type(seen[0]) is int
    tensors = (9, [2, 1]), (9, [2, None])
    assert seen[6:12] == [(8, [1, 2]), (7, [0.5]), (6, [True, False]), *tensors, 2]


def table(**changes: Any) -> Any:
    """Return a capsule of a ctypes table."""

    class Row(ctypes.Structure):
        _fields_ = [
            ("schema", ctypes.c_char_p),
            ("run", ctypes.c_void_p),
            ("user", ctypes.c_void_p),
        ]

    class Table(ctypes.Structure):
        _fields_ = [
            *(("abi", ctypes.c_uint32), ("size", ctypes.c_size_t)),
            *(("row_size", ctypes.c_size_t), ("origin", ctypes.c_char_p)),
            *(("rows", ctypes.POINTER(Row)), ("count", ctypes.c_size_t)),
        ]

    row = Row(changes.pop("schema", UNARY.encode()), changes.pop("run", None), None)
    result = Table(1, ctypes.sizeof(Table), ctypes.sizeof(Row), b"mine", ctypes.pointer(row), 1)
    for key, value in changes.items():
        setattr(result, key, value)
    tables.append((result, row))
    return capsule(result, b"executorch_c.operators")


tables: list[Any] = []
"""Keeps the targets of capsules alive."""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"abi": 2}, "operators have ABI version 2, expected 1"),
        ({"size": 8}, "the table of operators is incomplete: origin and rows are needed"),
        ({"row_size": 8}, r"at least 48 and 24 bytes \(found 48 and 8\)"),
        ({"origin": None}, "incomplete"),
        ({"rows": None}, "incomplete"),
        ({}, "mine: an operator without run"),
        ({"schema": None}, "mine: an operator without schema"),
        ({"schema": b"t::f.out(Tensor x", "run": 8}, "mine: schema, character 18"),
        ({"schema": b"t::f.out(Tensor x) -> ()", "run": 8}, "mine: schema of t::f.out: not an out"),
    ],
)
def test_wrong_tables(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(executorch_c.InvalidArgumentError, match=says):
        executorch_c.register_operators(table(**changes))
    assert "t::f.out" not in Runtime.get().operator_registry.operator_names


DISCOVER = """
import sys, warnings
import numpy as np
import executorch_c
assert "importlib.metadata" not in sys.modules
program = executorch_c.Runtime.get().load_program(open(sys.argv[1], "rb").read())
assert "importlib.metadata" not in sys.modules
print({how})
"""


@pytest.mark.parametrize(
    "how",
    [
        "program.load_method('forward')(np.ones((2, 3), np.float32)).sum()",
        "program.requirements()['missing_operators'] and 0 or 18.0",
        "18.0 if 'demo::scale.out' in {row['name'] for row in executorch_c.operators()} else 0",
    ],
)
def test_entry_points_are_searched_on_first_use(tmp_path: Path, how: str) -> None:
    pytest.importorskip("executorch_c._backend_demo_ops")
    info = tmp_path / "some_operators-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some_operators\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[executorch_c.operators]\nx = executorch_c._backend_demo_ops\n"
    )
    path = tmp_path / "f.pte"
    path.write_bytes(pte("demo::scale.out", X, 3, Out((2, 3))))
    root = Path(executorch_c.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    done = process.python("-c", DISCOVER.format(how=how), path, env=env, cwd=root, ok=False)
    assert (done.returncode, done.stdout) == (0, "18.0\n"), done.stderr
