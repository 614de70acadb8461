"""Programs with other outputs return the values that a trace of the program has, bit by bit."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c.rewrite import vulkan
from executorch_c.rewrite.kinds import WRITERS
from executorch_c.rewrite.method import Rewritten, with_outputs
from executorch_c.rewrite.points import Computed, computed
from executorch_c.rewrite.program import ProgramTables
from tests import plans
from tests.plans import Plan, build

TESTS = Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "release" / "golden" / "1.5.1"
BACKENDS = TESTS / "backends"
PROGRAMS = [
    *(GOLDEN / f"{name}.pte" for name in ("mlp", "cnn", "block", "halves")),
    *sorted(GOLDEN.glob("xnnpack_[!p]*.pte")),
    *(BACKENDS / "vulkan_programs" / f"{name}.pte" for name in ("cnn_fp16", "mlp_dyn", "mlp_w4")),
    *(BACKENDS / "coreml_programs" / f"{name}.pte" for name in ("cnn_fp16", "mlp_dyn", "mlp_int8")),
    *(BACKENDS / "tosa_programs" / f"{name}.pte" for name in ("mlp_fp", "cnn_int8")),
    *(BACKENDS / "tosa_programs" / f"vgf_{name}.pte" for name in ("mlp_fp", "cnn_int8")),
    *(BACKENDS / "native_programs" / f"{name}.pte" for name in ("attention", "cnn")),
    *(BACKENDS / "mlx_programs" / f"{name}.pte" for name in ("cnn", "decoder", "packed_4w")),
]


def inputs_of(path: Path) -> list[np.ndarray]:
    with np.load(path.with_suffix(".npz")) as file:
        return [file[key] for key in sorted(file) if key.startswith("in")]


def run(pte: bytes | Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Run a program as a traced one: untraced, several instructions may be one loop, which adds in
    another order."""
    method = executorch_c.load(pte).load_method("forward", delegate_at_load=False)
    with method.tracing(values=True):
        return list(method.execute(inputs))


def traced(path: Path, inputs: list[np.ndarray]) -> tuple[executorch_c.Program, list[Computed]]:
    program = executorch_c.load(path)
    method = program.load_method("forward", delegate_at_load=False)
    return program, computed(program, method, inputs)


def assert_same(rewritten: Rewritten, values: list[Computed], results: list[np.ndarray]) -> None:
    """Compare the outputs with the values of the trace: exactly, integers by what they mean. An
    output that the method had may have another dtype than the value inside."""
    for value, number, step in zip(values, rewritten.outputs, rewritten.steps, strict=True):
        if number is None:
            continue
        result = results[number]
        if step is not None:
            scale, zero_point = step
            result = (result.astype(np.int32) - zero_point).astype(np.float32) * np.float32(scale)
        np.testing.assert_array_equal(result, value.data.astype(result.dtype), err_msg=value.id)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_outputs_are_the_values_of_the_trace(path: Path) -> None:
    inputs, data = inputs_of(path), path.read_bytes()
    program, values = traced(path, inputs)
    assert values
    rewritten = with_outputs(program, data, [value.point for value in values], cut=False)
    results = run(rewritten.data, inputs)
    for before, after in zip(run(path, inputs), results):
        np.testing.assert_array_equal(before, after)
    assert_same(rewritten, values, results)
    assert sum(number is not None for number in rewritten.outputs) >= 0.7 * len(values)
    for value, number in zip(values, rewritten.outputs, strict=True):
        if number is None:
            continue
        cut = with_outputs(program, data, [value.point], cut=True)
        results = run(cut.data, inputs)
        assert len(results) == 1
        assert_same(cut, [value], results)


def test_values_that_are_overwritten_in_place() -> None:
    """They are no outputs of the whole graph, but of one that ends before."""
    path = BACKENDS / "native_programs" / "mlp.pte"
    inputs, data = inputs_of(path), path.read_bytes()
    program, values = traced(path, inputs)
    whole = with_outputs(program, data, [value.point for value in values], cut=False)
    assert [why for why in whole.refusals if why] == ["an operator in place overwrites it"]
    at = whole.refusals.index("an operator in place overwrites it")
    cut = with_outputs(program, data, [values[at].point], cut=True)
    assert_same(cut, [values[at]], run(cut.data, inputs))


@pytest.mark.parametrize("name", ["mlp", "cnn", "xnnpack_cnn", "xnnpack_int8", "xnnpack_8da4w"])
def test_the_official_runtime_runs_them(name: str) -> None:
    """Its XNNPACK rounds some integers of int8 to the other side: one step of a scale."""
    pytest.importorskip("executorch")
    path = GOLDEN / f"{name}.pte"
    inputs, data = inputs_of(path), path.read_bytes()
    program, values = traced(path, inputs)
    every = with_outputs(program, data, [value.point for value in values], cut=False)
    middle = values[len(values) // 2]
    cut = with_outputs(program, data, [middle.point], cut=True)
    for pte, count in ((every.data, len(set(every.outputs))), (cut.data, 1)):
        official, here = plans.reference(pte, *inputs), run(pte, inputs)
        assert official.error is None
        assert len(official.outputs) == len(here) >= count
        for ours, theirs in zip(here, official.outputs, strict=True):
            limit = 1 if ours.dtype.kind in "iu" else 5e-3 if "int8" in name else 1e-5
            np.testing.assert_allclose(ours.astype(np.float64), theirs, rtol=0, atol=limit)


def in_place() -> bytes:
    """Return y = exp(x); z = y + y in the place of y; w = z * z."""
    plan = Plan()
    x, w = plan.input((4,)), plan.output((4,))
    y = plan.tensor((4,), at=64)
    z = plan.tensor((4,), at=64)
    plan.call("aten::exp.out", x, y)
    plan.call("aten::add.out", y, y, 1, z)
    plan.call("aten::mul.out", z, z, w)
    return build(plan)


def test_a_value_whose_memory_is_written_again_is_the_output_of_a_cut(tmp_path: Path) -> None:
    path, x = tmp_path / "in_place.pte", np.array([1, 2, 3, 4], np.float32)
    path.write_bytes(in_place())
    program, values = traced(path, [x])
    points = [value.point for value in values]
    every = with_outputs(program, path.read_bytes(), points, cut=False)
    assert every.refusals == ("a later instruction writes to its memory", "", "")
    assert_same(every, values, run(every.data, [x]))
    for value in values:
        cut = with_outputs(program, path.read_bytes(), [value.point], cut=True)
        assert_same(cut, [value], run(cut.data, [x]))


def test_results_of_a_delegate_that_share_memory() -> None:
    """They are no outputs of the whole program, but of cuts."""
    path = GOLDEN / "xnnpack_clamp.pte"
    inputs = inputs_of(path)
    tables = ProgramTables(path.read_bytes(), "forward")
    places = [tables.plan["values"][i]["val"][1] for i in tables.plan["outputs"][:2]]
    places[0]["allocation_info"] = places[1]["allocation_info"]
    data = tables.write()
    program = executorch_c.load(data)
    values = computed(program, program.load_method("forward", delegate_at_load=False), inputs)
    every = with_outputs(program, data, [value.point for value in values], cut=False)
    assert_same(every, values, run(every.data, inputs))
    refused = [why for why in every.refusals if why]
    assert refused == ["another result of its instruction has its memory"] * 2
    for value in values:
        cut = with_outputs(program, data, [value.point], cut=True)
        assert_same(cut, [value], run(cut.data, inputs))


def test_values_of_loops_are_left_out() -> None:
    """All tensors of this program are computed in its loop."""
    path = GOLDEN / "map.pte"
    _, values = traced(path, inputs_of(path))
    assert not values


def test_payloads_of_other_backends_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(WRITERS, "NativeBackend")  # type: ignore[arg-type]
    path = BACKENDS / "native_programs" / "mlp.pte"
    program, values = traced(path, inputs_of(path))
    with pytest.raises(executorch_c.NotSupportedError, match="NativeBackend have no writer"):
        with_outputs(program, path.read_bytes(), [values[0].point], cut=True)


def test_fields_that_the_schema_does_not_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    older = {k: v for k, v in vulkan.LAYOUT.tables["VkTensor"].items() if k != "staging_datatype"}
    path = BACKENDS / "vulkan_programs" / "cnn_fp16.pte"
    program, values = traced(path, inputs_of(path))
    tables = {**vulkan.LAYOUT.tables, "VkTensor": older}
    monkeypatch.setattr(vulkan, "LAYOUT", dataclasses.replace(vulkan.LAYOUT, tables=tables))
    with pytest.raises(executorch_c.NotSupportedError, match="VkTensor has field 6, which its"):
        with_outputs(program, path.read_bytes(), [values[0].point], cut=True)
