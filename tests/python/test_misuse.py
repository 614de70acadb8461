"""Numbers and paths of the wrong type or size: the message names the argument."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime
from tests.plans import Plan, build

HUGE = 10**30


def make() -> bytes:
    plan = Plan()
    x, state, y = plan.input((4,)), plan.tensor((4,), name="state"), plan.output((4,))
    plan.call("aten::add.out", x, state, 1, y)
    return build(plan)


PTE = make()
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


def test_an_option_of_more_than_64_bits() -> None:
    registry = Runtime.get().backend_registry
    with pytest.raises(ValueError, match="OpenvinoBackend: option 'num_threads': expected an int"):
        registry.set_option("OpenvinoBackend", "num_threads", HUGE)


def test_an_attribute_of_another_shape() -> None:
    with pytest.raises(executorch_c.Error, match=r"found shape \(5,\), expected \(4,\)"):
        METHOD.set_attribute("state", np.zeros(5, np.float32))


@pytest.mark.parametrize(
    "paths, name", [((1, None), "etdump_path"), (("x", 1), "debug_buffer_path")]
)
def test_a_descriptor_is_no_path(paths: tuple[Any, Any], name: str) -> None:
    """open() would write to it, and close it."""
    program = Runtime.get().load_program(PTE, enable_etdump=True, debug_buffer_size=1)
    with pytest.raises(TypeError, match=f"{name} must be a str or os.PathLike, not int"):
        program.write_etdump_result_to_file(*paths)
