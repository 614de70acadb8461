"""Exceptions: one class for each status, messages, codes; numbers and paths of a wrong type or
size."""

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error, Runtime, _core
from tests.plans import Plan, build
from tests.python import small_programs


STATUS_DEF = Path(__file__).parents[2] / "csrc/core/status.def"
ROWS = re.findall(
    r'EC_STATUS\((\w+),\s+(0x\w+),\s+"([^"]*)",\s+(\w+),\s+(\w+)\)', STATUS_DEF.read_text()
)
STATUSES = [row for row in ROWS if row[0] != "OK"]


def test_the_table_was_read() -> None:
    assert len(STATUSES) == STATUS_DEF.read_text().count("\nEC_STATUS(") - 1 > 15


@pytest.mark.parametrize(("status", "code", "sentence", "name", "base"), STATUSES)
def test_each_status(status: str, code: str, sentence: str, name: str, base: str) -> None:
    cls = getattr(executorch_c, name)
    assert issubclass(cls, Error) and issubclass(cls, RuntimeError)
    assert issubclass(cls, eval(base))
    assert (cls.code, cls.status) == (int(code, 16), status)
    assert cls.__module__ == "executorch_c"
    assert sentence in cls.__doc__
    error = cls("a plain sentence")
    assert str(error) == "a plain sentence"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls and again.args == error.args and again.code == error.code


def test_all_names_are_exported() -> None:
    names = {name for name in dir(_core) if not name.startswith("_")}
    ours = {"Verification", "get_include", "load", "register_backend", "register_operator"}
    assert names | ours == set(executorch_c.__all__)
    for name in executorch_c.__all__:
        assert hasattr(executorch_c, name)


def test_a_missing_method_is_a_sentence_and_a_key_error() -> None:
    program = Runtime.get().load_program(small_programs.add_pte())
    for call in (program.load_method, program.metadata):
        with pytest.raises(KeyError) as error:
            call("backward")
        assert isinstance(error.value, executorch_c.NotFoundError)
        text = str(error.value)
        assert text == ("no method 'backward'; the program has 'forward' [error 0x20: not found]")
        assert (error.value.code, error.value.status) == (0x20, "NOT_FOUND")


def test_messages_end_with_the_code() -> None:
    method = small_programs.load(small_programs.add_pte(), "forward")
    with pytest.raises(ValueError, match=r"\[error 0x12: invalid argument\]$"):
        method.execute([])
    with pytest.raises(RuntimeError, match=r"\[error 0x10: not supported\]$"):
        method(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))


def test_all_missing_operators_in_one_error() -> None:
    ops = small_programs.SingleOps()
    x = np.zeros(2, np.float32)
    ops.add("aten::nosuch.out", x, small_programs.Out((2,)), name="forward")
    program = ops.program()
    program.execution_plan[0].operators += [small_programs.schema.Operator("my::other", "out")]
    more = copy.deepcopy(program.execution_plan[0].chains[0].instructions[0])
    more.instr_args.op_index = 1
    program.execution_plan[0].chains[0].instructions.append(more)
    loaded = Runtime.get().load_program(small_programs.serialize(program))
    assert loaded.requirements()["missing_operators"] == ["aten::nosuch.out", "my::other.out"]
    with pytest.raises(executorch_c.OperatorMissingError) as error:
        loaded.load_method("forward")
    assert "aten::nosuch.out" in str(error.value) and "my::other.out" in str(error.value)
    assert isinstance(error.value, LookupError)


def test_files_that_are_not_programs(tmp_path: Path) -> None:
    runtime = Runtime.get()
    pte = small_programs.add_pte()
    with pytest.raises(executorch_c.AccessFailedError, match="No such file") as error:
        runtime.load_program(tmp_path / "none.pte")
    assert isinstance(error.value, FileNotFoundError)
    with pytest.raises(executorch_c.AccessFailedError):
        runtime.load_program(tmp_path)
    for damaged in (b"", b"abc", pte[: len(pte) // 2], b"x" * 4096):
        with pytest.raises(ValueError):
            runtime.load_program(damaged)
    with pytest.raises(executorch_c.InvalidProgramError, match="ET11"):
        runtime.load_program(pte.replace(b"ET12", b"ET11", 1))
    with pytest.raises(executorch_c.InvalidExternalDataError):
        runtime.load_program(pte, data_path=b"y" * 4096)


HUGE = 10**30


PLAN = Plan()
INPUTS = PLAN.input((4,)), PLAN.tensor((4,), name="state"), 1
PLAN.call("aten::add.out", *INPUTS, PLAN.output((4,)))
PTE = build(PLAN)
PROGRAM = Runtime.get().load_program(PTE, enable_etdump=True)
METHOD = PROGRAM.load_method("forward")
META = METHOD.metadata
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "verification": lambda v: Runtime.get().load_program(PTE, verification=v),
    "debug_buffer_size": lambda v: Runtime.get().load_program(PTE, debug_buffer_size=v),
    "num_threads": lambda v: PROGRAM.load_method("forward", num_threads=v),
    "max_bytes": lambda v: PROGRAM.load_method("forward", max_bytes=v),
    "max_steps": lambda v: PROGRAM.load_method("forward", max_steps=v),
    "seed": METHOD.manual_seed,
    "max_bytes ": lambda v: METHOD.tracing(max_bytes=v),
    "index": META.input_tensor_meta,
    "index ": META.output_tensor_meta,
    "index  ": META.attribute_tensor_meta,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["x", b"x", 1.5, [], {}, np.float32(1), np.zeros(3), object()])
def test_numbers_of_another_type(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^`{name.strip()}` must be an int, not "):
        NUMBERS[name](value)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, HUGE, -HUGE])
def test_numbers_of_another_size(name: str, value: int) -> None:
    """Limits may be larger than any memory, seeds are counted modulo 2**64."""
    if name == "seed" or (value == HUGE and ("max_" in name or "size" in name)):
        NUMBERS[name](value)
        return
    with pytest.raises((ValueError, IndexError)):
        NUMBERS[name](value)


def test_options_and_attributes_that_do_not_fit() -> None:
    registry = Runtime.get().backend_registry
    with pytest.raises(ValueError, match="OpenvinoBackend: option 'num_threads': expected an int"):
        registry.set_option("OpenvinoBackend", "num_threads", HUGE)
    with pytest.raises(executorch_c.Error, match=r"found shape \(5,\), expected \(4,\)"):
        METHOD.set_attribute("state", np.zeros(5, np.float32))
    with pytest.raises(TypeError, match='capsule named "executorch_c.backend"'):
        executorch_c.register_backend(3)


@pytest.mark.parametrize(
    "paths, name", [((1, None), "etdump_path"), (("x", 1), "debug_buffer_path")]
)
def test_a_descriptor_is_no_path(paths: tuple[Any, Any], name: str) -> None:
    """open() would write to it, and close it."""
    program = Runtime.get().load_program(PTE, enable_etdump=True, debug_buffer_size=1)
    with pytest.raises(TypeError, match=f"{name} must be a str or os.PathLike, not int"):
        program.write_etdump_result_to_file(*paths)
