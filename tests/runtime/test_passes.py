"""Passes over a method: each can be switched off, and none of them changes a result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from executorch_c import Method, Runtime
from tests.exports import export

PASSES = ["fold", "fuse", "attend", "merge", "record", "delegate", "join", "prepare"]
PLAIN = {"kernels": "reference"}
EXACT = {"fold", "merge", "record", "join", "prepare"}
"""Passes after which the same arithmetic runs."""


class Attention(nn.Module):
    """Attention with a mask, in which a row has no key."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self.mask = nn.Buffer(torch.rand(keys, keys) < 0.3)
        self.mask[5] = False

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class Layers(nn.Module):
    """A product with a weight that is transposed, pointwise calls, and copies of the same bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, self.weight.t().contiguous())
        y = nn.functional.hardswish(y + 1) * y
        return (y.reshape(8, 64, 64).unsqueeze(0).clone() + 1).sigmoid()


class Small(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + torch.sigmoid(x)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "attention": lambda: (Attention(128), tuple(torch.randn(2, 8, 128, 32) for _ in range(3))),
    "few keys": lambda: (Attention(32), tuple(torch.randn(2, 8, 32, 32) for _ in range(3))),
    "layers": lambda: (Layers(), (torch.randn(512, 256),)),
    "small": lambda: (Small(), (torch.randn(3, 5),)),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest) -> tuple[bytes, list[np.ndarray], np.ndarray]:
    torch.manual_seed(0)
    model, inputs = MODELS[request.param]()
    pte = export(model.eval(), *inputs)
    return pte, [x.numpy() for x in inputs], model(*inputs).detach().numpy()


def calls(method: Method) -> dict[str, int]:
    return {one["name"]: one["calls"] for one in method.passes()}


def run(method: Method, inputs: list[np.ndarray]) -> np.ndarray:
    """Return the result of a second call, which repeats what the first one recorded."""
    method.execute(inputs)
    return method.execute(inputs)[0]


@pytest.mark.parametrize("off", PASSES)
def test_a_pass_can_be_switched_off(
    case: tuple[bytes, list[np.ndarray], np.ndarray], off: str
) -> None:
    pte, inputs, expected = case
    program = Runtime.get().load_program(pte)
    others = [name for name in PASSES if name != off]
    everything = run(program.load_method("forward", passes=PASSES), inputs)
    method = program.load_method("forward", passes=others)
    result = run(method, inputs)
    assert calls(method)[off] == 0
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    if off in EXACT and calls(method)["delegate"] == 0:
        np.testing.assert_array_equal(result, everything)


def test_each_pass_changes_calls() -> None:
    changed = dict.fromkeys(PASSES, 0)
    for make in MODELS.values():
        model, inputs = make()
        program = Runtime.get().load_program(export(model.eval(), *inputs))
        for delegate in ("always", False):
            method = program.load_method("forward", delegate_at_load=delegate)
            changed = {name: n + calls(method)[name] for name, n in changed.items()}
    assert all(changed.values()), changed


def test_without_passes_the_instructions_execute(
    case: tuple[bytes, list[np.ndarray], np.ndarray],
) -> None:
    pte, inputs, expected = case
    method = Runtime.get().load_program(pte).load_method("forward", passes=[])
    assert not any(one["ran"] or one["calls"] for one in method.passes())
    np.testing.assert_allclose(run(method, inputs), expected, rtol=1e-5, atol=1e-5)
    assert method.memory()["folded"] == method.memory()["packed"] == 0


def test_traces_have_every_call(case: tuple[bytes, list[np.ndarray], np.ndarray]) -> None:
    """A traced call executes the instructions, whatever passes wrote; the next one does not."""
    pte, inputs, expected = case
    program = Runtime.get().load_program(pte)
    ways: list[dict[str, Any]] = [
        {"delegate_at_load": "always"},
        {"delegate_at_load": False},
        PLAIN,
    ]
    names, results = [], []
    for options in ways:
        method = program.load_method("forward", **options)
        before = run(method, inputs)
        with method.tracing(values=True) as trace:
            results.append(method.execute(inputs)[0])
        names.append([event.name for event in trace.events])
        np.testing.assert_array_equal(run(method, inputs), before)
        np.testing.assert_allclose(results[-1], expected, rtol=1e-5, atol=1e-5)
    assert names[0] == names[1] == names[2]
    operators = program.info()["methods"][0]["operators"]
    kernels = [name for name in names[0] if "::" in name]
    assert len(kernels) == sum(row["calls"] for row in operators) > 0
    np.testing.assert_array_equal(results[0], results[1])


def test_plain_loops_have_no_passes(case: tuple[bytes, list[np.ndarray], np.ndarray]) -> None:
    method = Runtime.get().load_program(case[0]).load_method("forward", **PLAIN)
    assert [one["name"] for one in method.passes() if one["ran"]] == ["delegate"]
    assert not any(calls(method).values())


def test_the_environment_names_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    pte = export(Small(), torch.randn(3, 5))
    for text, names in {"": set(), "record": {"record"}, "fold,record": {"fold", "record"}}.items():
        monkeypatch.setenv("EXECUTORCH_C_PASSES", text)
        method = Runtime.get().load_program(pte).load_method("forward")
        assert {one["name"] for one in method.passes() if one["ran"]} == names
    monkeypatch.setenv("EXECUTORCH_C_PASSES", "fold,joy")
    with pytest.raises(ValueError, match="'joy', expected names among fold, fuse"):
        Runtime.get().load_program(pte).load_method("forward")


@pytest.mark.parametrize(
    ("passes", "error", "message"),
    [
        (["fuze"], ValueError, "'fuze', expected names among fold, fuse, attend"),
        ([b"fuse"], ValueError, "b'fuse', expected names"),
        ("fuse", TypeError, "a str, expected a list of names"),
        (3, TypeError, "not iterable"),
    ],
)
def test_wrong_names(passes: object, error: type[Exception], message: str) -> None:
    program = Runtime.get().load_program(export(Small(), torch.randn(3, 5)))
    with pytest.raises(error, match=message):
        program.load_method("forward", passes=passes)  # type: ignore[arg-type]
