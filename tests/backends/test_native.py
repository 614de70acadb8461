"""NativeBackend: programs of the flow equal eager; damaged payloads, hostile graphs, faults."""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir.operator.convert import to_out_variant
from torch import nn

import executorch_c
from executorch_c import Method, Runtime
from executorch_c.devtools import explain
from executorch_c.testing import check_model
from tests.backends import native_flow
from tests.backends.recorded import Recorded
from tests.models import vulkan_zoo

PROGRAMS = Recorded(Path(__file__).with_name("native_programs"))
MODELS = native_flow.models()
OPERATORS = Path(__file__).parents[2] / "backends/interpreted/native/operators.def"


def method_of(pte: bytes | str, **options: Any) -> Method:
    return Runtime.get().load_program(pte, **options).load_method("forward")


def assert_close(method: Method, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Assert that a call equals eager: integers exactly, floats to 1e-6."""
    with torch.no_grad():
        want = model(*inputs)
    want = want if isinstance(want, tuple) else (want,)
    found = method.execute([x.numpy() for x in inputs])
    assert len(found) == len(want)
    for got, expected in zip(found, want, strict=True):
        assert got.shape == tuple(expected.shape) and got.dtype == expected.numpy().dtype
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "counter"])
def test_models(name: str) -> None:
    model, inputs = MODELS[name]
    pte = native_flow.export(model, inputs)
    assert "NativeBackend" in Runtime.get().load_program(pte).requirements()["backends"]
    assert_close(method_of(pte), model, inputs)


@pytest.mark.parametrize("name", PROGRAMS.names())
def test_recorded_programs(name: str) -> None:
    assert PROGRAMS.error(name, name) <= 1e-6


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["mlp", "cnn", "mobile", "unet", "lstm"])
def test_half(name: str) -> None:
    model, inputs = MODELS[name]
    half = copy.deepcopy(model).half()
    inputs = tuple(x.half() for x in inputs)
    found = method_of(native_flow.export(half, inputs)).execute([x.numpy() for x in inputs])
    with torch.no_grad():
        want = torch.utils._pytree.tree_leaves(half(*inputs))
    for got, expected in zip(found, want, strict=True):
        scale = float(expected.abs().max())
        np.testing.assert_allclose(got, expected.numpy(), rtol=3e-3, atol=3e-3 * scale)


SCHEMES = {
    "mlp": ["static8", "w8", "8da8w"],
    "block": ["static8"],
    "cnn": ["static8"],
    "unet": ["static8"],
}
"""Schemes of PT2E by rows of vulkan_zoo: the quantisers are the programs', not the delegates'."""


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "scheme"), [(n, s) for n, some in SCHEMES.items() for s in some])
def test_quantized_models(name: str, scheme: str) -> None:
    """Integers are between the delegates, whose layers are float32: equal to eager."""
    import executorch.kernels.quantized  # noqa: F401  out variants of quantize_..., dequantize_...

    torch.manual_seed(0)
    row = next(row for row in vulkan_zoo.FLOAT_ROWS if row.name == name)
    inputs = tuple(row.draw(shape) for shape in row.shapes)
    made: Any = row.make()
    model = vulkan_zoo.SCHEMES[scheme](made.eval(), inputs)
    pte = bytes(native_flow.lower_exported(torch.export.export(model, inputs)).buffer)
    program = Runtime.get().load_program(pte)
    assert {d["id"] for d in program.info()["methods"][0]["delegates"]} == {"NativeBackend"}
    assert_close(program.load_method("forward"), model, inputs)


def test_weights_of_torchao_cannot_be_lowered() -> None:
    """Its operators have no out variants, and NativePartitioner does not take them."""
    torch.manual_seed(0)
    inputs = (torch.randn(4, 64),)
    model = vulkan_zoo.SCHEMES["4w"](vulkan_zoo._linear().eval(), inputs)
    with pytest.raises(RuntimeError, match="Missing out variants: {'torchao::dequantize_affine'}"):
        native_flow.lower_exported(torch.export.export(model, inputs))


def test_the_serializer_writes_no_packed_weights() -> None:
    """A tensor's quantisation is in the schema, but nothing in ExecuTorch 1.5.1 sets it."""
    from executorch.backends import native

    root = Path(native.__file__).parent
    code = {path: path.read_text() for path in root.rglob("*.py") if "test" not in path.parts}
    made = {"AffineGroup", "PackedQuant", "QuantSpec"}
    calls = {
        path.name
        for path, text in code.items()
        for name in made
        if re.search(rf"(?<!class ){name}\(", text)
    }
    assert calls == set()


def test_constants_in_a_data_file(tmp_path: Path) -> None:
    model, inputs = MODELS["cnn"]
    native_flow.write(tmp_path, model, inputs)
    [data] = tmp_path.glob("*.ptd")
    pte = (tmp_path / "model.pte").read_bytes()
    assert_close(method_of(pte, data_path=data), model, inputs)
    with pytest.raises(executorch_c.Error, match="stores constants in a .ptd file"):
        method_of(pte)


def fresh_call(model: nn.Module, call: int, x: torch.Tensor) -> Any:
    """Return the model, with new state for the first call, and the call's inputs."""
    if call == 0:
        model.load_state_dict(native_flow.Counter().state_dict())
    return model, (x * (call + 1), torch.tensor([call]))


def test_state() -> None:
    """State keeps its value between calls; a newly loaded method begins anew, and so does one after
    reset()."""
    model, (x, at) = native_flow.Counter(), MODELS["counter"][1]
    pte = native_flow.export(native_flow.Counter(), (x, at))
    method_of(pte)(x.numpy(), at.numpy())
    method = method_of(pte)
    for call in range(3):
        assert_close(method, model, (x * (call + 1), torch.tensor([call])))
    method.reset()
    for call in range(2):
        assert_close(method, *fresh_call(model, call, x))


def test_dynamic_shapes() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0], -1).relu() * x.shape[0]

    dim = torch.export.Dim("n", min=2, max=9)
    x = torch.randn(4, 3, 5)
    method = method_of(native_flow.export(Flat(), (x,), dynamic_shapes=({0: dim},)))
    for n in (2, 4, 9):
        assert_close(method, Flat(), (torch.randn(n, 3, 5),))


@pytest.mark.parametrize("make", [native_flow.Branches, native_flow.Nested])
def test_cond(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.rand(2, 4)
    method = method_of(native_flow.export_whole(model, (x,)))
    for factor in (1, -1, 2, -0.2, 0.1):
        assert_close(method, model, (x * factor,))


def test_cond_with_a_chosen_branch() -> None:
    model, x = native_flow.Chosen(), torch.randn(3)
    pte = native_flow.export_whole(model, (x, torch.tensor(True)))
    method = method_of(pte)
    with method.tracing() as trace:
        for flag in (True, False):
            assert_close(method, model, (x, torch.tensor(flag)))
    inside: Any = Runtime.get().load_program(pte)._delegate("forward", 0)
    assert [node["name"] for node in inside["nodes"]] == ["higher_order.cond"]
    assert [e.name for e in trace.events if e.kind == "node"] == ["higher_order.cond"] * 2


def test_a_wrong_branch_changes_its_results_alone() -> None:
    torch.manual_seed(0)
    model, x = native_flow.Branches(), torch.rand(2, 4)
    data = model.left.weight.detach().numpy()
    pte = native_flow.export_whole(model, (x,))
    assert pte.count(data.tobytes()) == 1
    method = method_of(pte.replace(data.tobytes(), (data + 0.5).tobytes()))
    assert_close(method, model, (-x,))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(method, model, (x,))


def test_the_partitioner_cannot_lower_cond() -> None:
    """ExecuTorch 1.5.1 fails, for the result of such a delegate is a tuple in a tuple."""
    inputs = (torch.randn(3), torch.tensor(True))
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'lifetime'"):
        native_flow.lower(native_flow.Chosen(), inputs)


class Attentions(nn.Module):
    """Attention with each kind of mask, and products of each rank."""

    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        attend = nn.functional.scaled_dot_product_attention
        both = torch.matmul(q, q.transpose(-1, -2))
        return (
            *(attend(q, q, q), attend(q, q, q, attn_mask=mask > 0), attend(q, q, q, mask)),
            *(attend(q, q, q, is_causal=True, scale=0.3), both, both[0] @ q[0]),
            *(q @ q[0, 0].transpose(0, 1), q[0, 0] @ q[0, 0].transpose(0, 1)),
        )


def test_attention_and_products() -> None:
    inputs = torch.randn(2, 3, 5, 4), torch.linspace(-1, 4, 25).sin().reshape(5, 5) + 0.5
    assert_close(method_of(native_flow.export(Attentions(), inputs)), Attentions(), inputs)


def test_nodes_are_described() -> None:
    inside: Any = Runtime.get().load_program(PROGRAMS.folder / "mlp.pte")._delegate("forward", 0)
    names = [node["name"] for node in inside["nodes"]]
    assert names == ["aten.linear.default", "aten.relu_.default", "aten.linear.default"]
    assert inside["nodes"][1]["note"].startswith("aten_relu__default")
    values = {value["id"]: value for value in inside["values"]}
    _, weight, _ = (values[i] for i in inside["nodes"][0]["inputs"])
    assert weight["constant"] and "named data 0.weight" in weight["note"]


def test_names_of_operators() -> None:
    """Each functional operator is translated to the out variant that ExecuTorch pairs it with."""
    rows = dict(re.findall(r'ECT_OP\("aten\.(.*?)", "aten::(.*?)"', OPERATORS.read_text()))
    ours = {row["name"] for row in executorch_c.operators()}
    compared = 0
    for schema in torch._C._jit_get_all_schemas():
        overload = schema.overload_name or "default"
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        op = getattr(packet, overload, None) if schema.name.startswith("aten::") else None
        if op is None or any(a.alias_info and a.alias_info.is_write for a in schema.arguments):
            continue
        try:
            out = to_out_variant(op)[0]._schema
        except Exception:  # no such pair
            continue
        name = f"{out.name}.{out.overload_name}"
        if name not in ours:
            continue
        base = schema.name
        guesses = [f"{base}.{overload}_out"] * (overload != "default") + [f"{base}.out"]
        row = rows.get(f"{base.removeprefix('aten::')}.{overload}")
        found = f"aten::{row}" if row else next(guess for guess in guesses if guess in ours)
        assert found == name
        compared += 1
    assert compared > 400


# ---- faults -----------------------------------------------------------------------------------


def test_check_model_finds_a_wrong_weight() -> None:
    model, inputs = MODELS["cnn"]

    def lower(exported: Any) -> Any:
        broken = native_flow.Convolutions().eval()
        broken.load_state_dict(model.state_dict())
        with torch.no_grad():
            broken.depthwise.weight.copy_(broken.depthwise.weight.roll(1, 0))
        return native_flow.lower(broken, inputs)

    assert not check_model(model, inputs, flow=lower, n_random=1).ok
    assert check_model(model, inputs, flow=lambda _: native_flow.lower(model, inputs)).ok


FAULTY: list[tuple[str, str, int]] = [
    *(("mlp", "2.weight", 33), ("cnn", "first.weight", 7), ("cnn", "depthwise.weight", 5)),
    *(("cnn", "last.bias", 2), ("unet", "up.weight", 9), ("attention", "qkv.weight", 70)),
    ("lstm", "inner.weight_hh_l0", 11),
]
"""Models, their parameters, and the element that is wrong."""


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "parameter", "at"), FAULTY)
def test_explain_names_the_layer(name: str, parameter: str, at: int) -> None:
    model, inputs = MODELS[name]
    pte = native_flow.export(model, inputs)
    right = explain(model, inputs, program=pte)
    assert right and right.first is None, str(right)
    values = model.state_dict()[parameter].numpy().copy()
    data = values.tobytes()
    assert pte.count(data) == 1
    values.reshape(-1)[at] += 0.5
    report = explain(model, inputs, program=pte.replace(data, values.tobytes()))
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert report.first.module == parameter.rpartition(".")[0], str(report)


def test_a_lost_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload's output is a new value of the buffer: without it, the buffer keeps its old
    one."""
    from executorch.backends.native import preprocess
    from executorch.backends.native.serialization import graph_serialize as official

    def lost(*args: Any) -> Any:
        data, constants = official.serialize_graph(*args)
        program = official.deserialize_program(data)
        (method,) = program.methods
        kept = [spec.kind.name == "USER_OUTPUT" for spec in method.output_specs]
        assert kept.count(False) == 2
        outputs = zip(kept, method.graph.outputs, method.output_specs)
        left = [(name, spec) for keep, name, spec in outputs if keep or spec.target == "cache"]
        method.graph.outputs, method.output_specs = map(list, zip(*left))
        return official._compile_to_bytes(program), constants

    model, inputs = native_flow.Counter(), MODELS["counter"][1]
    monkeypatch.setattr(preprocess, "serialize_graph", lost)
    result = check_model(model, inputs, flow=lambda _: native_flow.lower(model, inputs))
    assert result.verdict == "differ", str(result)


def damaged(old: bytes, new: bytes) -> bytes:
    """Return a program of an MLP with other bytes, as many, in its payload."""
    pte = native_flow.export(*MODELS["mlp"])
    assert len(old) == len(new) and old in pte
    return pte.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            b"torch.ops.aten.relu_.default",
            b"torch.ops.aten.rexx_.default",
            "'aten_relu__default' .torch.ops.aten.rexx_.default.: the operator is not known here",
        ),
        (b"torch.ops.aten.relu_.default", b"torch_ops_aten_relu__default", "operator is not known"),
        (
            b"torch.ops.aten.relu_.default",
            b"torch.ops.aten.relu__default",
            "the target is not torch.ops.NAMESPACE.NAME.OVERLOAD",
        ),
        (b"NPTG", b"NPTX", "without the identifier of a native graph, expected 'NPTG'"),
    ],
)
def test_hostile_payloads(old: bytes, new: bytes, sentence: str) -> None:
    with pytest.raises(executorch_c.Error, match=sentence):
        method_of(damaged(old, new))


@pytest.mark.parametrize("name", PROGRAMS.names())
def test_damaged_programs(name: str) -> None:
    data = (PROGRAMS.folder / f"{name}.pte").read_bytes()
    PROGRAMS.check_damaged(name, data.index(b"NPTG") - 4, len(data), cases=300)


def test_absent_fields() -> None:
    """Each pair of bytes of a payload becomes zero, as in a table that lacks a field."""
    data = (PROGRAMS.folder / "mlp.pte").read_bytes()
    begin = data.index(b"NPTG") - 4
    sentences = set()
    for at in range(begin, begin + 2600, 2):
        copy = bytearray(data)
        copy[at : at + 2] = b"\0\0"
        try:
            program = Runtime.get().load_program(bytes(copy))
            program._delegate("forward", 0)
            program.load_method("forward")
        except executorch_c.Error as found:
            sentences.add(str(found))
    assert any("has no dtype and sizes" in sentence for sentence in sentences)
    assert len(sentences) > 30
