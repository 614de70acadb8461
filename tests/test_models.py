"""Whole models from the official flow: executorch_c compared with eager and the official
runtime."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from torch import Tensor, nn

import executorch_c
from tests import judge, variation
from tests.models import zoo
from tests.models.blocks import Fn
from tests.models.zoo_models import MODELS
from tests.openers import Opener

OFFICIAL_CANNOT = {
    "channels_last": "its batch norm rejects non-contiguous dim orders",
    "cond_twice": "its MoveCall aliases, so the second cond overwrites a result of the first",
}
EXAMPLES = Path(executorch_c.__file__).parent / "examples"


def parameters() -> list[Any]:
    """Return every model in both flows; those of real size have a mark."""
    return [
        pytest.param(name, flow, marks=[pytest.mark.large] if MODELS[name].large else [])
        for name in zoo.names(large=True)
        for flow in zoo.FLOWS
    ]


def each_model(test: Any) -> Any:
    """Run a test for each model in both flows; by default one row of nine, of either flow."""
    rows = pytest.mark.parametrize(("name", "flow"), parameters())
    return pytest.mark.sweep(9)(rows(test))


def test_a_copy_of_a_model_has_its_own_weights() -> None:
    inner = nn.Linear(2, 2)
    again = copy.deepcopy(Fn(lambda x, inner: inner(x), inner=inner))
    with torch.no_grad():
        for one in again.parameters():
            one.zero_()
        assert not again(torch.ones(2)).any() and inner(torch.ones(2)).any()


@each_model
def test_matches_eager(name: str, flow: str, ours: Opener) -> None:
    exported = zoo.load(name, flow)
    run = ours(exported.pte)
    for method, calls in exported.calls.items():
        for i, call in enumerate(calls):
            zoo.assert_right(name, method, i, run(method, call.inputs), call.outputs)


def official_is_right(name: str, flow: str, official: Opener) -> bool:
    """Return True if the official runtime gives eager's outputs for the calls of the first
    method."""
    exported = zoo.load(name, flow)
    method, calls = next(iter(exported.calls.items()))
    run = official(exported.pte)
    for i, call in enumerate(calls):
        zoo.assert_right(name, method, i, run(method, call.inputs), call.outputs)
    return True


@each_model
def test_official_matches_eager(name: str, flow: str, official: Opener) -> None:
    """The program is right: the official runtime has eager's outputs."""
    if name not in OFFICIAL_CANNOT:
        assert official_is_right(name, flow, official)
        return
    with pytest.raises((AssertionError, RuntimeError)):
        official_is_right(name, flow, official)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", ["mlp", "unet", "bert", "dynamic_seq", "cond_twice", "map_loop"])
def test_calls_do_not_depend_on_earlier_ones(name: str, ours: Opener) -> None:
    """Repeating the calls gives bitwise equal results, and outputs do not change."""
    exported = zoo.load(name)
    run = ours(exported.pte)
    rounds = [[run("forward", call.inputs) for call in exported.calls["forward"]] for _ in "ab"]
    for first, second in zip(*rounds, strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
            assert not np.shares_memory(a, b)


def test_inputs_are_not_modified(ours: Opener) -> None:
    exported = zoo.load("dynamic_batch")
    run = ours(exported.pte)
    for call in exported.calls["forward"]:
        before = call.inputs[0].copy()
        run("forward", call.inputs)
        np.testing.assert_array_equal(call.inputs[0], before)


@pytest.mark.parametrize(("name", "shape"), [("dynamic_batch", (9, 3, 8, 8)), ("mlp", (5, 16))])
def test_an_input_beyond_the_bound_is_refused(
    name: str, shape: tuple[int, ...], ours: Opener
) -> None:
    exported = zoo.load(name)
    run = ours(exported.pte)
    with pytest.raises(RuntimeError):
        run("forward", [np.zeros(shape, np.float32)])
    call = exported.calls["forward"][0]
    assert run("forward", call.inputs)[0].shape == call.outputs[0].shape


def test_constant_methods(ours: Opener) -> None:
    run = ours(zoo.export("encoder_decoder"))
    assert run("get_bos_id", []) == [1]
    assert run("get_temperature", []) == [0.7]
    assert run("get_name", []) == ["pair"]
    assert run("get_sizes", []) == [2, 16]
    (flag,) = run("use_cache", [])
    assert flag is True
    (table,) = run("get_table", [])
    np.testing.assert_array_equal(table, np.arange(6, dtype=np.float32).reshape(2, 3))


def test_methods_of_one_program_keep_their_own_state(ours: Opener) -> None:
    """Interleaved calls of two methods of a program that does not share its buffers."""
    exported = zoo.load("encoder_decoder")
    run = ours(exported.pte)
    for method in ("encode", "decode", "encode", "decode"):
        call = exported.calls[method][0]
        zoo.assert_right(exported.name, method, 0, run(method, call.inputs), call.outputs)


def test_encoder_feeds_decoder(ours: Opener) -> None:
    """Outputs of one method are inputs of the other without conversion."""
    zoo_pair = MODELS["encoder_decoder"].build()
    (sentence,) = zoo_pair.methods["encode"].calls[0]
    token, state, _ = zoo_pair.methods["decode"].calls[0]
    run = ours(zoo.export("encoder_decoder"))
    (memory,) = run("encode", [sentence.numpy()])
    outputs = run("decode", [token.numpy(), state.numpy(), memory])
    pair = torch.nn.ModuleList(spec.module for spec in zoo_pair.methods.values())

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = pair

        def forward(self, sentence: Tensor, token: Tensor, state: Tensor) -> Any:
            return self.decode(token, state, self.encode(sentence))

    variation.assert_eager(outputs, Both(), sentence, token, state)


def test_shipped_digits_example(ours: Opener) -> None:
    """Logits around 10 from some hundred products in float32."""
    run, limit = ours((EXAMPLES / "digits.pte").read_bytes()), judge.Limit(0, 16)
    with np.load(EXAMPLES / "digits.npz") as data:
        (outputs,) = run("forward", [data["inputs"]])
        terms = np.abs(data["expected"]).max(-1, keepdims=True) * np.ones(10)
        judge.assert_right(outputs, data["expected"], "digits", limit, terms=terms)
        assert (outputs.argmax(-1) == data["labels"]).mean() > 0.95
        (few,) = run("forward", [data["inputs"][:3]])
        judge.assert_right(few, data["expected"][:3], "three digits", limit, terms=terms[:3])
