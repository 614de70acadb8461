"""Costs of quantised layers: a planted coarse layer is the most expensive one."""

import copy
import json

import numpy as np
import pytest
import torch

from executorch_c.compare.logits import LogitTolerance
from executorch_c.llm import quantization_cost
from executorch_c.llm.agreement import measure
from executorch_c.llm.layer_costs import quantized_layers
from tests.llm.small_llm import Decoder, eager, ids, program

PROMPTS = [ids(12), ids(9, seed=1)]


def quantized(coarse: str, others: tuple[str, ...] = ("up", "head")) -> Decoder:
    """Return a decoder whose weights are rounded: of one layer to few steps."""
    model = Decoder().eval()
    for name in (coarse, *others):
        weight = model.get_submodule(name).weight.data
        step = weight.abs().max() / (2 if name == coarse else 127)
        weight.copy_((weight / step).round() * step)
    return model


@pytest.mark.parametrize("coarse", ["down", "layers.0.v", "layers.1.out"])
def test_a_coarse_layer_is_first(coarse: str) -> None:
    model = Decoder().eval()
    before = copy.deepcopy(model.state_dict())
    report = quantization_cost(
        model, PROMPTS, quantized=quantized(coarse), program=program(), progress=False
    )
    assert [row.layer for row in report][0] == coarse and len(report) == 3
    assert report.rows[0].divergence > 10 * report.rows[1].divergence > 0
    whole, exported = report.whole
    assert whole.divergence == pytest.approx(report.rows[0].divergence, rel=0.5)
    assert exported.divergence < 1e-9 and exported.same_top == 1, "the program is the float one"
    losses = []
    for tokens in PROMPTS:
        rows = eager("position", tokens).astype(np.float64)[:-1]
        p = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        losses += list(-p[np.arange(len(rows)), tokens[1:]])
    assert report.loss == pytest.approx(np.mean(losses), abs=1e-5)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert coarse in report.summary() and report.ok
    first, second = report.rows[:2]
    assert first.cost_db < second.cost_db - 10 and first.gain_db > 10 > second.gain_db
    assert first.cost_db == pytest.approx(whole.cost_db, abs=1)
    assert f"Keep '{coarse}' in float: {first.gain_db:+.1f} dB" in report.summary()
    assert max(map(len, str(report).splitlines())) <= 80
    assert len(json.loads(report.to_json())["rows"]) == 5 and "layers" in report.to_html()


def test_layers_that_differ() -> None:
    model, other = Decoder(), quantized("down", ())
    assert quantized_layers(model, other) == ["down"]
    other.layers[0].q = torch.nn.Identity()
    assert quantized_layers(model, other) == ["layers.0.q", "down"]
    report = quantization_cost(
        model.eval(), PROMPTS, quantized=Decoder().eval(), program=program(), progress=False
    )
    assert len(report) == 0 and "no layer is quantised" in report.summary()
    with pytest.raises(ValueError, match="at least 2 tokens"):
        quantization_cost(model, [[5]], quantized=other, program=program())


def test_the_limit_of_quantised_logits() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((20, 500)) * 3
    noise = rng.standard_normal((20, 500)) * 3

    def first(scales: np.ndarray) -> int | None:
        return measure(logits + noise * scales[:, None], logits, LogitTolerance(0, 10.0)).first

    assert first(np.full(20, 0.25)) is None, "12 dB at each position"
    assert first(np.full(20, 0.4)) == 0, "8 dB at each position"
    one = np.full(20, 0.2)
    one[7] = 0.5
    assert first(one) is None, "6 dB at one position"
    one[7] = 1.0
    assert first(one) == 7, "0 dB at one position"
