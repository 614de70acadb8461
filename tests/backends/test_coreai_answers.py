"""CoreAIBackend: answers of the engine's process that a hostile model could write are one clear
exception each, in bounded time and memory; the next call starts another process."""

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Error
from executorch_c._coreai import engine, messages
from tests.backends.test_coreai import X, files, load, pte, registered
from tests.fuzz.readers import check_cases

SECONDS = 0.5
"""Time limit of a load or a call."""
MODEL = {
    "functions": [
        {
            "name": "main",
            "inputs": [["x", "float32", [2, 3]]],
            "outputs": [["y", "float32", [2, 3]]],
            "states": [],
        }
    ],
    "arrays": [],
}
RESULT = {"arrays": [["float32", [2, 3]]]}
Answer = bytes | None
"""Bytes; None: nothing, and the socket stays open."""


def message(header: Any, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + data


GOOD = [message(MODEL), message(RESULT, (X * 2).tobytes())]
"""Answers to a load and to a call."""


class Ended:
    """A process that has ended."""

    def wait(self, _: float = 0) -> int:
        return 0

    poll = wait


class Stub(engine.Engine):
    """An engine whose process is a thread that has its answers ready."""

    answers: list[Answer] = []
    """Answers to the next messages of any stub; right ones follow."""

    def __init__(self) -> None:
        engine.Engine.generations += 1
        self.generation, self.models = engine.Engine.generations, 0
        self.folder = engine.tempfile.mkdtemp()
        self.pipe, theirs = socket.socketpair()
        self.process: Any = Ended()
        threading.Thread(target=self.answer, args=(theirs,), daemon=True).start()

    @classmethod
    def answer(cls, pipe: socket.socket) -> None:
        """Answer messages until one of the answers is not the right one."""
        with pipe:
            try:
                while True:
                    request, _ = messages.receive(pipe)
                    good = GOOD[request["do"] == "run"]
                    answer = cls.answers.pop(0) if cls.answers else good
                    if answer is not None:
                        pipe.sendall(answer)
                    elif pipe.recv(1) == b"":
                        return
                    if answer != good and len(answer or b"") < 4:
                        return
            except (OSError, EOFError):
                return


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(engine, "Engine", Stub)
    yield from registered()
    Stub.answers = []


def function(**changes: Any) -> Any:
    return {**MODEL, "functions": [{**MODEL["functions"][0], **changes}]}


LOADS: list[tuple[Answer, str]] = [
    (None, "not ended in 0.5 seconds"),
    (b"", "died in the load of the model: exit status 0"),
    (b"\x01\x02", "died in the load of the model"),
    (b"\xff\xff\xff\xff", "a header of 4,294,967,295 bytes"),
    (GOOD[0][:20], "not ended in 0.5 seconds"),
    (message([]), r"a header that is \[\], expected an object"),
    (message(3), "a header that is 3"),
    (struct.pack("<I", 2) + b"\xff{", "a header that is not JSON"),
    (struct.pack("<I", 100_000) + b"[" * 100_000, "a header that is not JSON"),
    (struct.pack("<I", 10_000) + b"9" * 10_000, "a header that is"),
    (message({}), "'arrays' is None, expected a list"),
    (message({**MODEL, "arrays": {}}), "'arrays' is {}"),
    (message({**MODEL, "arrays": ["x"]}), "an array 'x', expected a dtype and a shape"),
    (message({**MODEL, "arrays": [["complex64", []]]}), r"an array \['complex64', \[\]\]"),
    (message({**MODEL, "arrays": [[["float32"], []]]}), "expected a dtype"),
    (message({**MODEL, "arrays": [["int8", [1 << 33]]]}), r"an array of shape \[8589934592\]"),
    (message({**MODEL, "arrays": [["int8", [1 << 20] * 16]]}), "arrays of .* bytes, expected at"),
    (message({**MODEL, "arrays": [["int8", [-1]]]}), r"an array of shape \[-1\]"),
    (message({**MODEL, "arrays": [["int8", [True]]]}), r"an array of shape \[True\]"),
    (message({**MODEL, "arrays": [["int8", [1.5]]]}), r"an array of shape \[1.5\]"),
    (message({**MODEL, "arrays": [["int8", [1] * 17]]}), "expected at most 16 sizes"),
    (message({**MODEL, "arrays": [["int8", [1 << 31]]]}), "not ended in 0.5 seconds"),
    (message({**MODEL, "functions": None}), "'functions' is None, expected a list"),
    (message({**MODEL, "functions": [1]}), "a function is 1, expected an object"),
    (message({**MODEL, "functions": []}), "the model has no function"),
    (message(function(name=None)), "'name' is None, expected a text"),
    (message(function(states="s")), "'states' is 's', expected a list"),
    (message(function(states=["s"])), r"keeps state inside the model \(s\)"),
    (message(function(inputs=[["x", "float32"]])), "an input is .*, expected a name, a dtype"),
    (message(function(inputs=[["x", "float32", ["2"]]])), "an input's shape is"),
    (message(function(inputs=[["x", 7, [2, 3]]])), "an input's dtype is 7"),
    (message(function(inputs=[["x", "int32", [2, 3]]])), "input 0 is float32, the function takes"),
    (message(function(inputs=[])), "has 0 inputs, the program passes 1"),
    (message({"error": "a\x1b[1m", "arrays": []}), r"refused the load of the model: a\?\[1m"),
    (message({"error": [1], "arrays": []}), r"'error' is \[1\], expected a text"),
]
RUNS: list[tuple[Answer, str]] = [
    (None, "not ended in 0.5 seconds .option 'timeout_seconds'. in function 'main'"),
    (b"", "died in function 'main'"),
    (GOOD[1][:-1], "not ended in 0.5 seconds"),
    (message({"arrays": []}), "outputs"),
    (message({"arrays": [["float32", [2, 3]]] * 2}, bytes(48)), "outputs"),
    (message({"arrays": [["int64", [2, 3]]]}, bytes(48)), "int64"),
    (message({"arrays": [["float32", [4, 3]]]}, bytes(48)), "4, 3"),
    (message({"arrays": [["float32", [7]]]}, bytes(28)), "7"),
    (message({**RESULT, "nodes": 3}, bytes(24)), "'nodes' is 3, expected a list"),
    (
        message({**RESULT, "nodes": [["a", 1]]}, bytes(24)),
        "a node is .*, expected a name and a bool",
    ),
    (
        message({**RESULT, "nodes": [["a", True]] * 2}, bytes(24)),
        "2 nodes have values, but there are 1 arrays",
    ),
]


def check_next() -> None:
    assert_array_equal(load(pte(files()), timeout_seconds=9.0)(X), X * 2)


@pytest.mark.parametrize(("answer", "match"), LOADS, ids=range(len(LOADS)))
def test_an_answer_to_a_load(answer: Answer, match: str) -> None:
    Stub.answers = [answer]
    with pytest.raises(Error, match=match):
        load(pte(files()), timeout_seconds=SECONDS)(X)
    check_next()


@pytest.mark.parametrize(("answer", "match"), RUNS, ids=range(len(RUNS)))
def test_an_answer_to_a_call(answer: Answer, match: str) -> None:
    method = load(pte(files()), timeout_seconds=SECONDS)
    Stub.answers = [answer]
    with pytest.raises(Error, match=match):
        method(X)
    assert_array_equal(method(X), X * 2)  # another process has loaded the model again
    check_next()


def test_no_answer_at_the_end() -> None:
    """Releasing a model has the time limit of calls."""
    method = load(pte(files()), timeout_seconds=SECONDS)
    Stub.answers = [None]
    start = time.monotonic()
    del method
    assert Stub.answers == [] and time.monotonic() - start < 20
    check_next()


WILD = [None, True, -1, 0, 1, 1 << 31, 1 << 70, 1.5, "", "float32", "x" * 200, [], {}, [[]], [1, 2]]


def mutated(value: Any, pick: random.Random) -> Any:
    """Return a header with one value changed, doubled or missing."""
    if pick.random() < 0.25 or not isinstance(value, (dict, list)) or not value:
        return pick.choice(WILD)
    if isinstance(value, dict):
        key = pick.choice(sorted(value))
        rest = {k: v for k, v in value.items() if k != key}
        return rest if pick.random() < 0.1 else {**rest, key: mutated(value[key], pick)}
    at = pick.randrange(len(value))
    if pick.random() < 0.2:
        return value[:at] + value[at + pick.randrange(2) :] + value[:at]
    return [*value[:at], mutated(value[at], pick), *value[at + 1 :]]


def damaged_bytes(data: bytes, pick: random.Random) -> bytes:
    """Return bytes with some changed, or without their end."""
    bytes_ = bytearray(data)
    for _ in range(pick.randrange(1, 4)):
        bytes_[pick.randrange(len(bytes_))] = pick.randrange(256)
    return bytes(bytes_[: pick.choice((len(bytes_), pick.randrange(len(bytes_))))])


def damaged(good: bytes, pick: random.Random) -> bytes:
    """Return a right answer with a changed header, or other bytes."""
    size = struct.unpack("<I", good[:4])[0]
    header, data = json.loads(good[4 : 4 + size]), good[4 + size :]
    if pick.random() < 0.8:
        return message(mutated(header, pick), data)
    return damaged_bytes(good, pick)


def cases(_: Path) -> Callable[[int], bool]:
    """Return a function that loads and calls a model with the answers of a number, and returns if
    there is a result."""
    engine.Engine = Stub  # type: ignore[misc]
    next(registered())
    program = executorch_c.Runtime.get().load_program(pte(files()))
    options = {"backend_options": {"CoreAIBackend": {"timeout_seconds": 0.02}}}

    def case(number: int) -> bool:
        pick = random.Random(number)
        Stub.answers = [answer if pick.random() < 0.3 else damaged(answer, pick) for answer in GOOD]
        try:
            result = program.load_method("forward", **options)(X)
            assert result.size <= X.size and result.dtype == np.float32
        except Error as error:
            assert str(error)
            return False
        finally:
            engine._close()
        return True

    return case


def test_random_answers(tmp_path: Path) -> None:
    check_cases(cases(tmp_path), 160)
