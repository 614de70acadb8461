"""The structure of a method, compared with the official flow's reading of the file."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir")
from executorch.exir import schema
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary
from executorch.exir.schema import ScalarType, TensorShapeDynamism

import executorch_c
from executorch_c import Error, OutOfResourcesError, Runtime
from executorch_c._types import MethodStructure, StructureInstruction, StructureValue
from executorch_c.devtools import dump, graph, memory_plan
from tests.backends.xnnpack_mutate import damage
from tests.backends.xnnpack_payload import payloads
from tests.fuzz.hostile import random_damage
from tests.inspect.seen_programs import MAKERS, exported, opened, pte_of
from tests.plans import Constants, Plan, build

DTYPES = {ScalarType.FLOAT: "float32", ScalarType.LONG: "int64", ScalarType.BOOL: "bool"}
DELEGATED = {"cnn_xnnpack", "mixed", "quantised", "nested"}
DYNAMISM = {
    TensorShapeDynamism.STATIC: "static",
    TensorShapeDynamism.DYNAMIC_BOUND: "bound",
    TensorShapeDynamism.DYNAMIC_UNBOUND: "unbound",
}


def methods(pte: bytes) -> Iterator[tuple[PTEFile, schema.ExecutionPlan, MethodStructure]]:
    """Yield the official view of each method, and ours."""
    file = deserialize_pte_binary(pte)
    program = Runtime.get().load_program(pte)
    for plan in file.program.execution_plan:
        yield file, plan, program._structure(plan.name)


def same_tensor(official: schema.Tensor, ours: StructureValue) -> None:
    assert ours["kind"] == "Tensor"
    assert ours["dtype"] == DTYPES[official.scalar_type]
    assert ours["shape"] == tuple(official.sizes)
    assert ours["dim_order"] == tuple(official.dim_order)
    assert ours["dynamism"] == DYNAMISM[official.shape_dynamism]
    assert ours["buffer"] == official.data_buffer_idx
    place = official.allocation_info
    assert ours["arena"] == (place.memory_id if place else None)
    if place:
        assert ours["offset"] == place.memory_offset_low + (place.memory_offset_high << 32)
    extra = official.extra_tensor_info
    assert ours["name"] == ((extra.fully_qualified_name or None) if extra else None)


def same_value(official: Any, ours: StructureValue) -> None:
    name = type(official).__name__
    assert ours["kind"] == {"Null": "None"}.get(name, name)
    if isinstance(official, schema.Tensor):
        same_tensor(official, ours)
    elif isinstance(official, schema.Null):
        assert ours["value"] is None
    elif isinstance(official, (schema.Int, schema.Bool, schema.Double, schema.String)):
        (expected,) = vars(official).values()
        assert ours["value"] == expected
    else:
        items = official.items
        assert ours["value"] == [None if item == -1 else item for item in items]


@pytest.mark.parametrize("name", MAKERS)
def test_values(name: str) -> None:
    for _, plan, ours in methods(pte_of(name)):
        assert ours["inputs"] == plan.inputs and ours["outputs"] == plan.outputs
        assert ours["arenas"] == plan.non_const_buffer_sizes[1:]
        assert len(ours["values"]) == len(plan.values)
        for official, value in zip(plan.values, ours["values"]):
            same_value(official.val, value)


def same_instruction(plan: schema.ExecutionPlan, official: Any, ours: StructureInstruction) -> None:
    indices = [index for index, _, _ in ours["args"]]
    if isinstance(official, schema.KernelCall):
        operator = plan.operators[official.op_index]
        overload = "." + operator.overload if operator.overload else ""
        assert ours["kind"] == "kernel" and ours["name"] == operator.name + overload
        assert indices == official.args
    elif isinstance(official, schema.DelegateCall):
        assert ours["kind"] == "delegate" and ours["delegate"] == official.delegate_index
        assert ours["name"] == plan.delegates[official.delegate_index].id
        assert indices == official.args
    elif isinstance(official, schema.MoveCall):
        assert ours["kind"] == "move" and indices == [official.move_from, official.move_to]
    elif isinstance(official, schema.JumpFalseCall):
        assert ours["kind"] == "jump" and indices == [official.cond_value_index]
        assert ours["destination"] == official.destination_instruction
    else:
        assert ours["kind"] == "free" and indices == [official.value_index]


@pytest.mark.parametrize("name", MAKERS)
def test_instructions(name: str) -> None:
    kinds = set()
    for _, plan, ours in methods(pte_of(name)):
        assert len(ours["chains"]) == len(plan.chains)
        for official, chain in zip(plan.chains, ours["chains"]):
            assert len(chain) == len(official.instructions)
            for instruction, row in zip(official.instructions, chain):
                same_instruction(plan, instruction.instr_args, row)
                kinds.add(row["kind"])
            traces = official.stacktrace or []
            for frames, row in zip(traces, chain):
                expected = [(f.filename, f.lineno, f.name, f.context) for f in frames.items]
                assert row["stack"] == expected
            assert bool(traces) == any(row["stack"] for row in chain)
    if name == "branches":
        assert {"jump", "move"} <= kinds
    assert ("delegate" in kinds) == (name in DELEGATED)


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - {"external"}))
def test_outputs_of_instructions(name: str) -> None:
    """Compared with the values of a trace. (Without its .ptd, "external" cannot be loaded.)"""
    program = Runtime.get().load_program(pte_of(name))
    for method_name in program.method_names:
        structure = program._structure(method_name)
        method = program.load_method(method_name)
        inputs = [np.ones(info.shape, info.numpy_dtype) for _, info in method.metadata.inputs]
        with method.tracing() as trace:
            method.execute(inputs)
        for event in trace.events:
            if event.kind not in ("kernel", "delegate") or event.depth:
                continue
            assert event.chain is not None and event.instruction is not None
            row = structure["chains"][event.chain][event.instruction]
            written = [index for index, _, role in row["args"] if role in ("out", "inout")]
            expected = []
            for index in written:
                value = structure["values"][index]
                items = value["value"] if value["kind"] == "TensorList" else [index]
                expected += [structure["values"][i].get("shape", ()) for i in items]
            assert [value.shape for value in event.outputs] == expected, row


def test_constants_are_at_the_printed_offsets() -> None:
    pte = pte_of("cnn")
    ((_, plan, ours),) = methods(pte)
    state = exported("cnn").exported_program().state_dict
    count = 0
    for value in ours["values"]:
        if value["kind"] != "Tensor" or value["where"] != "constant":
            continue
        data = pte[value["at"] : value["at"] + value["nbytes"]]
        count += any(weight.detach().numpy().tobytes() == data for weight in state.values())
    assert count >= 4


def test_state_and_external_data() -> None:
    structure = opened("external")._structure("forward")
    named = {v["name"] for v in structure["values"] if v.get("where") == "external"}
    assert named == {"linear.weight", "linear.bias"}
    structure = opened("state")._structure("forward")
    (state,) = [v for v in structure["values"] if v.get("where") == "state"]
    assert state["arena"] == 1 and state["at"] is not None


def test_delegates() -> None:
    for name in ("mixed", "cnn_xnnpack", "nested"):
        pte = pte_of(name)
        program = Runtime.get().load_program(pte)
        for file, plan, ours in methods(pte):
            assert len(ours["delegates"]) == len(plan.delegates) > 0
            for i, (official, row) in enumerate(zip(plan.delegates, ours["delegates"])):
                assert row["id"] == official.id
                assert row["specs"] == [(s.key, bytes(s.value)) for s in official.compile_specs]
                payload = program._payload("forward", i)
                assert row["size"] == len(payload)
                assert row["at"] is not None
                assert pte[row["at"] : row["at"] + row["size"]] == payload
                # The official reader moves payloads from segments into the tables.
                data = file.program.backend_delegate_data[official.processed.index].data
                assert bytes(data) == payload


@pytest.mark.parametrize("name", ["mixed", "cnn_xnnpack", "quantised"])
def test_inside_of_delegates_compared_with_another_reader(name: str) -> None:
    """xnnpack_payload.py reads payloads with the schema of the installed package."""
    pte = pte_of(name)
    program = Runtime.get().load_program(pte)
    for i, payload in enumerate(payloads(pte)):
        inside = program._delegate("forward", i)
        assert inside is not None
        assert [f"XNN{node['name']}" for node in inside["nodes"]] == payload.kinds
        handles = [node.get("debug_handle", 0) for node in payload.graph["xnodes"]]
        assert [node["debug_handle"] for node in inside["nodes"]] == handles
        for node, official in zip(inside["nodes"], payload.nodes):
            assert node["outputs"] == [official.get("output_id", 0)]
            reads = {official.get(key, 0) for key in official if key.startswith("input")}
            assert reads <= set(node["inputs"])
        assert len(inside["values"]) == len(payload.tensors)
        for value, tensor in zip(inside["values"], payload.tensors):
            assert value["id"] == tensor.get("id_out", 0)
            assert value["constant"] == bool(tensor.get("constant_buffer_idx", 0))
            if value["constant"] or value["argument"] is not None:
                assert value["shape"] == tuple(tensor["dims"])
        assert [value["dtype"] for value in inside["values"]] == payload.datatypes


def test_quantised_delegates() -> None:
    inside = opened("quantised")._delegate("forward", 0)
    assert inside is not None
    notes = {value["dtype"]: value["note"] for value in inside["values"]}
    assert notes["qint8"].startswith("scale 0.")
    assert notes["qcint8"].startswith("scales along dimension 0")


def test_names_are_checked() -> None:
    program = opened("mixed")
    with pytest.raises(executorch_c.NotFoundError, match="forward"):
        program._structure("backward")
    with pytest.raises(TypeError):
        program._structure(3)  # type: ignore[arg-type]
    for index in (-1, 2):
        with pytest.raises(IndexError, match="of 2 of method 'forward'"):
            program._delegate("forward", index)
        with pytest.raises(IndexError):
            program._payload("forward", index)


def look(pte: bytes) -> str:
    """Read everything; return the outcome."""
    try:
        program = Runtime.get().load_program(pte)
        for name in program.method_names:
            structure = program._structure(name)
            for i in range(len(structure["delegates"])):
                program._payload(name, i)
                program._delegate(name, i)
            memory_plan(program, name)
            graph(program, name).dot()
        dump(program)
        dump(program, "json")
    except Error as error:
        assert str(error)
        return type(error).__name__
    return "fine"


@pytest.mark.parametrize("name", ["cnn", "mixed", "branches", "splits", "counter"])
def test_hostile_values(name: str, rng: np.random.Generator) -> None:
    """Well-formed but inconsistent files: an exception of ours or nothing, as in loading."""
    base, ends = pte_of(name), set()
    for _ in range(120):
        pte = random_damage(base, rng)
        if pte is not None:
            ends.add(look(pte))
    assert {"fine", "InvalidProgramError"} <= ends


def test_lists_are_not_moved_or_asked() -> None:
    for change in (
        lambda p, v: p.jump_false(v, 0),
        lambda p, v: p.move(v, v),
        lambda p, v: p.free(v),
    ):
        plan = Plan()
        change(plan, plan.value([1, 2]))
        program = Runtime.get().load_program(build(plan))
        with pytest.raises(executorch_c.InvalidProgramError, match="argument 0 is a IntList"):
            program._structure("forward")


def test_calls_with_too_few_arguments() -> None:
    """Loading rejects them; inspection shows the existing arguments."""
    for operator in ("executorch_prim::et_view.default", "aten::add.out", "my::own.out"):
        plan = Plan()
        plan.call(operator, returns=[])
        assert look(build(plan)) == "fine"


@pytest.mark.parametrize("name", ["mixed", "quantised"])
def test_damaged_payloads(name: str) -> None:
    """Only the payload is damaged: the structure is readable, and a message reports the payload."""
    chance, whole, described = random.Random(1), pte_of(name), 0
    for _ in range(300):
        pte = bytearray(whole)
        damage(pte, chance)
        program = Runtime.get().load_program(bytes(pte))
        for i in range(len(program._structure("forward")["delegates"])):
            try:
                inside = program._delegate("forward", i)
            except Error as error:
                assert f"delegate {i}, XnnpackBackend: " in str(error)
            else:
                assert inside is not None and inside["nodes"]
                described += 1
        assert dump(program)
    assert described > 20


@pytest.mark.parametrize("name", ["mixed", "splits"])
def test_damaged_bytes(name: str, rng: np.random.Generator) -> None:
    base = np.frombuffer(pte_of(name), np.uint8)
    ends = set()
    for _ in range(400):
        copy = base.copy()
        at = rng.integers(0, len(base), rng.integers(1, 5))
        copy[at] = rng.integers(0, 256, len(at))
        ends.add(look(copy.tobytes()))
    assert {"fine", "InvalidProgramError"} <= ends


# ---- small files, large cost -----------------------------------------------------------------


def repeats_a_list(count: int) -> bytes:
    """A list of `count` items, in each of `count` instructions."""
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    dims = plan.put(schema.IntList([int(plan.value(0))] * count))
    plan.call("aten::sum.IntList_out", x, dims, False, None, y)
    plan.code.extend(plan.code[:1] * (count - 1))
    return build(plan)


def repeats_payloads(delegates: int, depth: int) -> bytes:
    """A program with delegates that share one payload: a program with such delegates, and so on."""
    payload = b"no program"
    for _ in range(depth):
        plan = Plan()
        plan.take(plan.input((4,)))
        for _ in range(delegates):
            plan.delegate("ExecutorBackend", 0)
        payload = build(plan, payloads=[payload])
    return payload


@pytest.mark.parametrize("tool", [dump, graph, memory_plan])
def test_a_list_in_many_instructions(tool: Any) -> None:
    assert tool(repeats_a_list(20))
    with pytest.raises(OutOfResourcesError, match="the program repeats its lists"):
        tool(repeats_a_list(3000))


def test_a_payload_in_many_delegates() -> None:
    assert dump(repeats_payloads(2, 2))
    with pytest.raises(OutOfResourcesError, match="delegates or payloads"):
        dump(repeats_payloads(20, 7))


def test_texts_that_many_instructions_repeat() -> None:
    plan, constants = Plan(), Constants()
    x, y = plan.input((4,)), plan.output((4,))
    weight = plan.constant(constants, np.ones(4, np.float32), name="w" * 50_000)
    plan.call("a::b.out", x, weight, "s" * 50_000, y)
    plan.code.extend(plan.code * 999)
    pte = build(plan, constants=constants)
    assert len(dump(pte)) < 1_000_000
    assert len(graph(pte).dot()) < 10_000_000


def test_a_long_backend_id() -> None:
    plan = Plan()
    plan.take(plan.input((4,)))
    plan.delegate("B" * 256, 0)
    with pytest.raises(Error, match="a backend id over 255 bytes"):
        dump(build(plan, payloads=[b"x"]))
