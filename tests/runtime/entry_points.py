"""Every entry point of Runtime, Program, Method and portable_lib, called well and badly.

A row is a name and a function without arguments and lasting effects; those of BAD raise.
test_entry_points.py calls each many times and measures the process's memory and objects.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import executorch_c
from executorch_c import Runtime, _inputs
from tests.plans import BOUNDED, UNBOUND, Constants, Plan, adding, build, schema

Call = Callable[[], Any]
FOLDER = Path(tempfile.mkdtemp(prefix="entry-points-"))


def program() -> bytes:
    """Return a program with named state, an input with any number of rows, and a number."""
    plan = Plan()
    x = plan.input((64, 4), dynamism=BOUNDED)
    state, sum_ = plan.tensor((4,), name="state"), plan.tensor((4,))
    y = plan.output((64, 4), dynamism=BOUNDED)
    z = plan.output((4,))
    plan.call("aten::add.out", x, state, 1, y)
    plan.call("aten::add.out", state, state, 1, sum_)
    plan.call("aten::copy_", state, sum_, False, returns=[state])
    plan.call("aten::mul.out", state, state, z)
    plan.give(3)
    return build(plan)


SINE = b"1version:0#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_handle>1#"


def everything() -> bytes:
    """Return a program with state, scratch memory, lists, strings, views, moves, numbers, a
    delegate and unbound tensors."""
    constants, plan = Constants(), Plan()
    x, s = plan.input((64, 8), dynamism=BOUNDED), plan.input((1,))
    weight = plan.constant(constants, np.full((8, 8), 0.5, np.float32))
    state, sum_ = plan.tensor((1,), name="state"), plan.tensor((1,))
    y, z = plan.output((64, 8), dynamism=BOUNDED), plan.output((64, 8), dynamism=UNBOUND, at=None)
    plan.call("aten::mm.out", x, weight, y)
    plan.call("aten::cat.out", [x, y], 0, z)
    ordered = [plan.output((64, 8), dtype, dynamism=BOUNDED) for dtype in ("float32", "int64")]
    plan.call("aten::sort.values", y, 0, False, *ordered)
    rows = plan.value(0)
    plan.call("aten::sym_size.int", x, 0, rows, returns=[])
    shape = plan.value([8])
    plan.plan.values[shape].val.items.insert(0, int(rows))
    view = plan.output((64, 8), dynamism=BOUNDED, at=None)
    plan.call("executorch_prim::et_view.default", y, shape, view)
    plan.move(y, plan.output((64, 8), dynamism=BOUNDED))
    delegate = plan.delegate("BackendWithCompilerDemo", 0)
    plan.append(schema.DelegateCall(delegate, [s, plan.output((1,))]))
    plan.call("aten::mul.out", state, s, sum_)
    plan.call("aten::copy_", state, sum_, False, returns=[state])
    plan.take(rows, "text", None, 0.5, [x, y], [1, 2])
    return build(plan, constants=constants, payloads=[SINE])


def in_an_arena() -> bytes:
    """Return a program whose planned memory is of 8 MB."""
    plan, _ = adding(1)
    plan.plan.non_const_buffer_sizes[1] = 8 << 20
    return build(plan)


def half_loaded() -> bytes:
    """Return a program with a delegate that loads, and one without a backend."""
    plan, _ = adding()
    for name in ("BackendWithCompilerDemo", "NoSuchBackend"):
        plan.delegate(name, 0)
    return build(plan, payloads=[SINE])


def failing_late() -> executorch_c.Method:
    """Return a method whose second instruction fails, after its first has allocated a result."""
    plan = Plan()
    x, y = plan.input((8,), dynamism=BOUNDED), plan.output((8,), dynamism=UNBOUND, at=None)
    plan.call("aten::add.out", x, x, 1, y)
    plan.call("aten::add.out", y, plan.tensor((4,)), 1, plan.output((4,)))
    return RUNTIME.load_program(build(plan)).load_method("forward")


def with_more_code() -> bytes:
    plan, _ = adding(2)
    plan.append(schema.MoveCall(0, 99))
    return build(plan)


PTE = program()
FILE = FOLDER / "model.pte"
FILE.write_bytes(PTE)
WRONG = FOLDER / "wrong.pte"
WRONG.write_bytes(PTE[:100])
RUNTIME = Runtime.get()
LOADED = RUNTIME.load_program(PTE)
METHOD = LOADED.load_method("forward")
NAMES = _inputs.names(METHOD)
META = METHOD.metadata
RECORDED = RUNTIME.load_program(PTE, enable_etdump=True)
EVERYTHING = everything()
EVERYTHING_METHOD = RUNTIME.load_program(EVERYTHING).load_method("forward")
ARENA = FOLDER / "arena.pte"
ARENA.write_bytes(in_an_arena())
HALF_LOADED, BAD_CODE, FAILING_LATE = half_loaded(), with_more_code(), failing_late()
INPUTS = [[np.ones((n, 8), np.float32), np.ones(1, np.float32)] for n in (3, 64, 17)]
WIDE = [np.ones((8, 64), np.float32).T, [2.0]]
ROWS = {n: np.ones((n, 4), np.float32) for n in (1, 3, 64, 65)}
STATE = np.ones(4, np.float32)
SAVED = METHOD.get_state()
OUTS = [np.empty((3, 4), np.float32), np.empty(4, np.float32)]
HOLES = [np.empty((3, 8), np.float32)[:, ::2], None]
INFO = META.input_tensor_meta(0)


def traced() -> None:
    with METHOD.tracing(values=True, ranges=True) as trace:
        METHOD.execute([ROWS[3], 3])
    assert trace.runs == 1


def recorded() -> None:
    RECORDED.load_method("forward").execute([ROWS[1], 3])
    RECORDED.write_etdump_result_to_file(FOLDER / "a.etdp", None)


def read_meta() -> None:
    META.inputs, META.outputs, META.name(), META.num_attributes(), repr(META)  # noqa: B018
    META.output_tensor_meta(1), META.attribute_tensor_meta(0)  # noqa: B018


def read_info() -> None:
    INFO.sizes(), INFO.shape, INFO.dtype(), INFO.numpy_dtype, INFO.dim_order  # noqa: B018
    INFO.name, INFO.nbytes(), INFO.is_dynamic, INFO.is_memory_planned(), repr(INFO)  # noqa: B018


def threads() -> None:
    RUNTIME.num_threads = RUNTIME.num_threads
    del RUNTIME.num_threads


def load_everything() -> None:
    loaded = RUNTIME.load_program(EVERYTHING)
    loaded.load_method("forward").execute(INPUTS[0])
    loaded.info(), loaded.requirements(), loaded.metadata("forward").inputs  # noqa: B018


def load_an_arena() -> None:
    method = RUNTIME.load_program(str(ARENA)).load_method("forward")
    method(STATE)
    method.reset()  # touches all of the arena


class Simulator:
    """A backend of a delegate that doubles its input."""

    id = "EntryPointNpu"
    options = {"factor": 2}

    def init(self, payload: bytes, specs: dict[str, bytes], options: dict[str, Any]) -> None:
        self.factor = options["factor"]

    def execute(self, inputs: list[Any], call: executorch_c.BackendCall) -> Any:
        call.trace("double", inputs[0], debug_handle=1)
        return inputs[0] * np.float32(self.factor)


def delegated() -> bytes:
    """Return a program whose method is a delegate of Simulator."""
    plan = Plan()
    x, y = plan.input((3, 4)), plan.output((3, 4))
    plan.append(schema.DelegateCall(plan.delegate(Simulator.id, 0), [x, y]))
    return build(plan, payloads=[b"payload"])


class Failing(Simulator):
    """A backend whose calls fail."""

    id = "EntryPointBad"

    def execute(self, inputs: list[Any], call: executorch_c.BackendCall) -> Any:
        raise ValueError("this never works")


executorch_c.register_backend(Simulator)
executorch_c.register_backend(Failing)
NPU_PTE = delegated()
NPU = RUNTIME.load_program(NPU_PTE)
NPU_METHOD = NPU.load_method("forward")
FAILING = RUNTIME.load_program(
    NPU_PTE.replace(Simulator.id.encode(), Failing.id.encode())
).load_method("forward")


def registered_again() -> None:
    executorch_c.register_backend(type("Other", (Simulator,), {"id": "EntryPointOther"}))
    executorch_c.unregister_backend("EntryPointOther")


def options_of_a_simulator() -> None:
    registry = RUNTIME.backend_registry
    registry.set_option(Simulator.id, "factor", 2)
    assert registry.get_option(Simulator.id, "factor") == 2


GOOD: dict[str, Call] = {
    "Runtime.get": Runtime.get,
    "Runtime.load_program(bytes)": lambda: RUNTIME.load_program(PTE),
    "Runtime.load_program(path)": lambda: RUNTIME.load_program(FILE),
    "Runtime.load_program(bytearray)": lambda: RUNTIME.load_program(bytearray(PTE)),
    "Runtime.load_program(everything)": load_everything,
    "Runtime.load_program(arena)": load_an_arena,
    "Runtime.num_threads": threads,
    "Runtime.backend_registry": lambda: RUNTIME.backend_registry.registered_backend_names,
    "Runtime.operator_registry": lambda: RUNTIME.operator_registry,
    "BackendRegistry.is_available": lambda: RUNTIME.backend_registry.is_available("none"),
    "Program.method_names": lambda: LOADED.method_names,
    "Program.metadata": lambda: LOADED.metadata("forward"),
    "Program.load_method(again)": lambda: LOADED.load_method("forward"),
    "Program.load_method": lambda: RUNTIME.load_program(PTE).load_method("forward"),
    "Program.load_method(options)": lambda: LOADED.load_method(
        "forward", kernels="reference", num_threads=1, seed=1, max_bytes=1 << 30
    ),
    "Program.info": LOADED.info,
    "Program.requirements": LOADED.requirements,
    "Program.has_etdump": lambda: LOADED.has_etdump,
    "Program.write_etdump_result_to_file": recorded,
    "Program.repr": lambda: (repr(LOADED), LOADED._repr_html_()),
    "MethodMeta": read_meta,
    "TensorInfo": read_info,
    "Method.execute": lambda: METHOD.execute([ROWS[3], 3]),
    "Method.execute(other shape)": lambda: (
        METHOD.execute([ROWS[1], 3]),
        METHOD.execute((ROWS[64], 3)),
    ),
    "Method.execute(converted)": lambda: METHOD.execute([ROWS[3].tolist(), 3]),
    "Method.execute(strided)": lambda: METHOD.execute([np.asfortranarray(ROWS[3]), 3]),
    "Method.execute(out=)": lambda: METHOD.execute([ROWS[3], 3], out=OUTS),
    "Method.execute(out= with holes)": lambda: METHOD.execute([ROWS[3], 3], out=HOLES),
    "Method.execute(everything)": lambda: [EVERYTHING_METHOD.execute(one) for one in INPUTS],
    "Method.execute(everything, converted)": lambda: EVERYTHING_METHOD.execute(WIDE),
    "Method.run": lambda: METHOD.run([ROWS[3], 3]),
    "Method.run(by name)": lambda: METHOD.run(dict(zip(NAMES, (ROWS[3], 3)))),
    "Method.__call__": lambda: METHOD(ROWS[3], 3),
    "Method.metadata": lambda: METHOD.metadata,
    "Method.get_attribute": lambda: METHOD.get_attribute("state"),
    "Method.set_attribute": lambda: METHOD.set_attribute("state", STATE),
    "Method.attribute_names": lambda: METHOD.attribute_names,
    "Method.reset": lambda: METHOD.reset(),
    "Method.get_state": lambda: METHOD.get_state(),
    "Method.set_state": lambda: METHOD.set_state(SAVED),
    "Method.manual_seed": lambda: METHOD.manual_seed(3),
    "Method.memory": lambda: METHOD.memory(),
    "Method.num_threads": lambda: METHOD.num_threads,
    "Method.backend_report": lambda: METHOD.backend_report(),
    "Method.undelegated": lambda: METHOD.undelegated(),
    "Method.passes": lambda: METHOD.passes(),
    "Method.tracing": traced,
    "Method.repr": lambda: repr(METHOD),
    "operators": lambda: executorch_c.operators(),
    "register_backend": registered_again,
    "BackendRegistry.set_option": options_of_a_simulator,
    "Program.load_method(Python backend)": lambda: RUNTIME.load_program(NPU_PTE).load_method(
        "forward"
    ),
    "Method.execute(Python backend)": lambda: NPU_METHOD.execute([ROWS[3]]),
}
BAD: dict[str, Call] = {
    "Method.run(other name)": lambda: METHOD.run({"no such input": ROWS[3]}),
    "Method.run(without a tensor)": lambda: METHOD.run({}),
    "Runtime.load_program(bytes)": lambda: RUNTIME.load_program(PTE[:200]),
    "Runtime.load_program(empty)": lambda: RUNTIME.load_program(b""),
    "Runtime.load_program(path)": lambda: RUNTIME.load_program(WRONG),
    "Runtime.load_program(no file)": lambda: RUNTIME.load_program(FOLDER / "none.pte"),
    "Runtime.load_program(type)": lambda: RUNTIME.load_program(3),  # type: ignore[arg-type]
    "Runtime.load_program(data)": lambda: RUNTIME.load_program(PTE, data_path=[b"x" * 64]),
    "Runtime.load_program(verification)": lambda: RUNTIME.load_program(PTE, verification=9),
    "Runtime.num_threads": lambda: setattr(RUNTIME, "num_threads", -1),
    "BackendRegistry.option_keys": lambda: RUNTIME.backend_registry.option_keys("none"),
    "BackendRegistry.get_option": lambda: RUNTIME.backend_registry.get_option("none", "key"),
    "BackendRegistry.set_option": lambda: RUNTIME.backend_registry.set_option("none", "key", 1),
    "Program.metadata": lambda: LOADED.metadata("none"),
    "Program.load_method": lambda: LOADED.load_method("none"),
    "Program.load_method(options)": lambda: LOADED.load_method(
        "forward", backend_options={"none": {"key": "value"}}
    ),
    "Program.load_method(memory)": lambda: LOADED.load_method("forward", max_bytes=10),
    "Program.write_etdump_result_to_file": lambda: LOADED.write_etdump_result_to_file("x", None),
    "MethodMeta.input_tensor_meta": lambda: META.input_tensor_meta(9),
    "Program.load_method(code)": lambda: RUNTIME.load_program(BAD_CODE).load_method("forward"),
    "Program.load_method(backend)": lambda: RUNTIME.load_program(HALF_LOADED).load_method(
        "forward"
    ),
    "Method.execute(late)": lambda: FAILING_LATE.execute([INPUTS[0][0][0]]),
    "Method.execute(count)": lambda: METHOD.execute([ROWS[3]]),
    "Method.execute(shape)": lambda: METHOD.execute([ROWS[65], 3]),
    "Method.execute(rank)": lambda: METHOD.execute([STATE, 3]),
    "Method.execute(dtype)": lambda: METHOD.execute([ROWS[3].astype(np.complex64), 3]),
    "Method.execute(kind)": lambda: METHOD.execute(["x", 3]),
    "Method.execute(number)": lambda: METHOD.execute([ROWS[3], 4]),
    "Method.execute(dict)": lambda: METHOD.execute({1: 2}),
    "Method.execute(object)": lambda: METHOD.execute(object()),
    "Method.execute(out= count)": lambda: METHOD.execute([ROWS[3], 3], out=OUTS[:1]),
    "Method.execute(out= shape)": lambda: METHOD.execute([ROWS[1], 3], out=OUTS),
    "Method.execute(out= dtype)": lambda: METHOD.execute([ROWS[3], 3], out=[STATE, 3]),
    "Method.execute(keyword)": lambda: METHOD.execute([ROWS[3], 3], **{"nothing": 1}),
    "Method.__call__": lambda: METHOD(ROWS[3]),
    "Method.get_attribute": lambda: METHOD.get_attribute("none"),
    "Method.set_attribute": lambda: METHOD.set_attribute("none", STATE),
    "Method.set_attribute(shape)": lambda: METHOD.set_attribute("state", ROWS[3]),
    "Method.set_attribute(type)": lambda: METHOD.set_attribute("state", "x"),
    "Method.set_state(size)": lambda: METHOD.set_state(SAVED[1:]),
    "Method.set_state(type)": lambda: METHOD.set_state("x"),  # type: ignore[arg-type]
    "Method.manual_seed": lambda: METHOD.manual_seed("x"),  # type: ignore[arg-type]
    "Method._trace_stop": lambda: METHOD._trace_stop(),
    "register_backend": lambda: executorch_c.register_backend(3),
    "register_operator": lambda: executorch_c.register_operator("x", print),
    "unregister_backend": lambda: executorch_c.unregister_backend("none"),
    "Method.execute(Python backend)": lambda: FAILING.execute([ROWS[3]]),
    "Program.load_method(Python backend)": lambda: NPU.load_method(
        "forward", backend_options={Simulator.id: {"speed": 1}}
    ),
}


def bindings() -> tuple[dict[str, Call], dict[str, Call]]:
    """Return the rows of portable_lib, which needs torch."""
    import torch
    from executorch_c import portable_lib

    x = torch.ones(3, 4)
    module = portable_lib._load_for_executorch_from_buffer(PTE)
    loaded = portable_lib._load_program_from_buffer(PTE)
    method = loaded.load_method("forward")

    def by_parts() -> None:
        method.set_inputs([x, 3])
        method.execute()
        method.get_outputs()

    good: dict[str, Call] = {
        "ExecuTorchModule.forward": lambda: module.forward([x, 3]),
        "ExecuTorchModule.method_meta": lambda: module.method_meta("forward"),
        "ExecuTorchProgram.load_method": lambda: loaded.load_method("forward"),
        "ExecuTorchMethod.set_inputs": by_parts,
        "ExecuTorchMethod.get_attribute": lambda: method.get_attribute("state"),
        "_load_for_executorch": lambda: portable_lib._load_for_executorch(str(FILE)),
    }
    bad: dict[str, Call] = {
        "ExecuTorchModule.forward(device)": lambda: module.forward([x.to("meta"), 3]),
        "ExecuTorchModule.run_method": lambda: module.run_method("none"),
        "ExecuTorchModule.forward(data)": lambda: portable_lib._load_for_executorch_from_buffer(
            PTE, b"wrong data"
        ).forward([x, 3]),
        "ExecuTorchProgram.get_method_name": lambda: loaded.get_method_name(9),
        "ExecuTorchMethod.call": lambda: method.call([x]),
    }
    return good, bad


def failing(call: Call) -> Call:
    """Return the call, whose exception is expected."""

    def run() -> None:
        try:
            call()
        except Exception:
            return
        raise AssertionError("a bad call has not failed")

    return run
