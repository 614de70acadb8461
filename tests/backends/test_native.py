"""NativeBackend: programs of the flow equal eager; damaged payloads, hostile graphs, faults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import executorch_c
import native_flow
import numpy as np
import pytest
import torch
from executorch.exir.operator.convert import to_out_variant
from executorch_c import Method, Runtime
from executorch_c.testing import check_model
from recorded import Recorded
from torch import nn

PROGRAMS = Recorded(Path(__file__).with_name("native_programs"))
MODELS = native_flow.models()
OPERATORS = Path(__file__).parents[2] / "backends/native/operators.def"


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


def test_constants_in_a_data_file(tmp_path: Path) -> None:
    model, inputs = MODELS["cnn"]
    native_flow.write(tmp_path, model, inputs)
    [data] = tmp_path.glob("*.ptd")
    pte = (tmp_path / "model.pte").read_bytes()
    assert_close(method_of(pte, data_path=data), model, inputs)
    with pytest.raises(executorch_c.Error, match="stores constants in a .ptd file"):
        method_of(pte)


def test_state() -> None:
    """State keeps its value between calls, and a newly loaded method begins anew."""
    model, (x, at) = native_flow.Counter(), MODELS["counter"][1]
    pte = native_flow.export(native_flow.Counter(), (x, at))
    method_of(pte)(x.numpy(), at.numpy())
    method = method_of(pte)
    for call in range(3):
        assert_close(method, model, (x * (call + 1), torch.tensor([call])))


def test_dynamic_shapes() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0], -1).relu() * x.shape[0]

    dim = torch.export.Dim("n", min=2, max=9)
    x = torch.randn(4, 3, 5)
    method = method_of(native_flow.export(Flat(), (x,), dynamic_shapes=({0: dim},)))
    for n in (2, 4, 9):
        assert_close(method, Flat(), (torch.randn(n, 3, 5),))


class Attentions(nn.Module):
    """Attention with each kind of mask, and products of each rank."""

    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        attend = nn.functional.scaled_dot_product_attention
        both = torch.matmul(q, q.transpose(-1, -2))
        return (attend(q, q, q), attend(q, q, q, attn_mask=mask > 0), attend(q, q, q, mask),
                attend(q, q, q, is_causal=True, scale=0.3), both, both[0] @ q[0],
                q @ q[0, 0].transpose(0, 1), q[0, 0] @ q[0, 0].transpose(0, 1))  # fmt: skip


def test_attention_and_products() -> None:
    inputs = torch.randn(2, 3, 5, 4), torch.linspace(-1, 4, 25).sin().reshape(5, 5) + 0.5
    assert_close(method_of(native_flow.export(Attentions(), inputs)), Attentions(), inputs)


def test_nodes_are_described() -> None:
    inside: Any = Runtime.get().load_program(PROGRAMS.folder / "mlp.pte")._delegate("forward", 0)
    names = [node["name"] for node in inside["nodes"]]
    assert names == ["aten_linear_default", "aten_relu__default", "aten_linear_default_1"]
    assert inside["nodes"][1]["note"].startswith("torch.ops.aten.relu_.default")
    values = {value["id"]: value for value in inside["values"]}
    _, weight, _ = (values[i] for i in inside["nodes"][0]["inputs"])
    assert weight["constant"] and "named data 0.weight" in weight["note"]


def test_names_of_operators() -> None:
    """Each functional operator is translated to the out variant that ExecuTorch pairs it with."""
    rows = dict(re.findall(r'ECN_NAME\("(.*?)", "(.*?)"\)', OPERATORS.read_text()))
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


def damaged(old: bytes, new: bytes) -> bytes:
    """Return a program of an MLP with other bytes, as many, in its payload."""
    pte = native_flow.export(*MODELS["mlp"])
    assert len(old) == len(new) and old in pte
    return pte.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"torch.ops.aten.relu_.default", b"torch.ops.aten.rexx_.default",
         "'aten_relu__default' .torch.ops.aten.rexx_.default.: the operator is not known here"),
        (b"torch.ops.aten.relu_.default", b"torch_ops_aten_relu__default", "operator is not known"),
        (b"torch.ops.aten.relu_.default", b"torch.ops.aten.relu__default",
         "the target is not torch.ops.NAMESPACE.NAME.OVERLOAD"),
        (b"NPTG", b"NPTX", "without the identifier of a native graph, expected 'NPTG'"),
    ],
)  # fmt: skip
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
