"""The power of check_model: what it says it would have found is found, and what it says was not
tested is not."""

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from executorch_c.check import sensitivity
from executorch_c.check.cases import CallSequence
from executorch_c.check.constants import other
from executorch_c.check.gradients import Slices
from executorch_c.check.judge import Judge
from executorch_c.check.judged import CheckedCases, MatchingCase, limits_of, of_wrong_outputs
from executorch_c.check.power import Power, percent, ranges
from executorch_c.check.reference import Eager
from executorch_c.check.result import CheckedCase
from executorch_c.check.trials import equal
from executorch_c.compare.comparison import Comparison, joined
from executorch_c.compare.tolerance import CallerTolerances
from executorch_c.testing import check_model
from tests.exports import Fn, export
from tests.models.blocks import KvCache

SLICES = 12
"""Number of slices that are planted in each model."""


class Experts(nn.Module):
    """An embedding of 30 rows, of which 12 are read, four experts, of which one is never chosen,
    and a branch times zero."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.router = nn.Embedding(30, 16), nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.gamma, self.branch = nn.Parameter(torch.zeros(16)), nn.Linear(16, 16)
        self.head = nn.Linear(16, 7)
        with torch.no_grad():
            self.router.bias.copy_(torch.tensor([0.0, 0.0, 0.0, -100.0]))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.emb(ids.clamp(max=11))
        shares = self.router(x).softmax(-1)
        chosen = shares.argmax(-1)
        y = sum(
            (chosen == i)[..., None] * shares[..., i : i + 1] * one(x)
            for i, one in enumerate(self.experts)
        )
        return self.head(x + y + self.gamma * self.branch(x))


class Image(nn.Module):
    """Convolutions with a batch normalisation between."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.depthwise, self.last = nn.Conv2d(8, 8, 3, groups=8), nn.Linear(8, 5)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.depthwise(self.norm(self.conv(x)).relu()).mean((2, 3)))


def of_rows(ids: Tensor, table: Any, first: Any, second: Any) -> Tensor:
    """Compute with an embedding and two experts, of which the second is for rows that no test
    reads."""
    return torch.where((ids > 25)[:, None], second(table(ids)), first(table(ids)))


def without_gradients(x: Tensor, a: Any, b: Any) -> Tensor:
    with torch.no_grad():
        y = a(x)
    return b(y)


def in_place(x: Tensor, a: Any, b: Any) -> Tensor:
    """Compute with operators in place that autograd refuses; the first channel is overwritten."""
    x.mul_(2)
    y = a(x).relu_()
    y += 1
    y[:, 0] = 0
    return b(y)


def counting(x: Tensor, inner: Any, state: Tensor, scale: Tensor) -> Tensor:
    """Compute with a state that each call changes, and a buffer that none does."""
    return state.copy_(torch.tanh(inner(x) + state)) * scale


class Asleep(nn.Module):
    """Branches of inactive units; an error wakes a few, and they stay below the limit."""

    share = 1e-5

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(24, 24)
        self.branches = nn.ModuleList(nn.Linear(24, 24, bias=False) for _ in range(6))
        x = torch.cat(asleep_inputs())
        self.margins = [float(one(x).detach().max()) + 1e-4 for one in self.branches]

    def forward(self, x: Tensor) -> Tensor:
        parts = [torch.relu(one(x) - at) for one, at in zip(self.branches, self.margins)]
        return self.head(x) + self.share * torch.stack(parts).sum(0)


class Woken(Asleep):
    """An error wakes units, but none of those that are tried, and they exceed the limit."""

    share = 1.0

    def __init__(self) -> None:
        super().__init__()
        x, tried = torch.cat(asleep_inputs()), torch.arange(24) % 3 == 1
        self.margins = [one(x).detach().amax(0) + 1e-4 + tried for one in self.branches]


def asleep_inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 24, generator=generator) for _ in range(4)]


def padded(x: Tensor, conv: Any, last: Any) -> Tensor:
    """Compute with a convolution with a dead input channel, and a layer whose last columns multiply
    zeros."""
    y = conv(torch.stack([x, x * 2, x * 0, x.relu()], 1)).amax((2, 3))
    return last(nn.functional.pad(y, (0, 4)))


def encoder() -> nn.Module:
    """Build two transformer layers over tokens."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(60, 32), layers, nn.Linear(32, 60))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 200))


def two_layers(function: Callable[..., Tensor]) -> Callable[[], nn.Module]:
    return lambda: Fn(function, a=nn.Linear(6, 6), b=nn.Linear(6, 6))


def normal(*shape: int) -> list[Tensor]:
    return [torch.randn(*shape) for _ in range(4)]


def tokens(high: int, *shape: int) -> list[Tensor]:
    return [torch.randint(0, high, shape) for _ in range(4)]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Sequence[Tensor]]]] = {
    "mlp": (mlp, lambda: normal(2, 16)),
    "experts": (Experts, lambda: tokens(12, 2, 8)),
    "image": (Image, lambda: normal(2, 3, 9, 9)),
    "encoder": (encoder, lambda: tokens(60, 2, 10)),
    "padded": (
        lambda: Fn(padded, conv=nn.Conv2d(4, 5, 3), last=nn.Linear(9, 6)),
        lambda: normal(2, 6, 6),
    ),
    "gru": (lambda: nn.GRU(5, 6), lambda: normal(3, 2, 5)),
    "lstm": (lambda: nn.LSTM(5, 6), lambda: normal(3, 2, 5)),
    "half": (lambda: Image().half(), lambda: [one.half() for one in normal(2, 3, 9, 9)]),
    "bfloat16": (lambda: mlp().bfloat16(), lambda: [one.bfloat16() for one in normal(2, 16)]),
    "no_grad": (two_layers(without_gradients), lambda: normal(2, 6)),
    "in place": (two_layers(in_place), lambda: normal(2, 6)),
    "state": (
        lambda: Fn(
            counting,
            inner=nn.Linear(6, 6),
            state=nn.Buffer(torch.zeros(2, 6)),
            scale=nn.Buffer(torch.rand(6) + 0.5),
        ),
        lambda: normal(2, 6),
    ),
    "asleep": (Asleep, asleep_inputs),
}
UNLIKE = {"woken": (Woken, asleep_inputs)}
"""Models whose slices are not like those of them that are tried."""


def judged(eager: Eager, case: CallSequence, outputs: list[list[Any]]) -> Comparison:
    """Return check_model's comparison of some outputs with eager's."""
    judge = Judge(CallerTolerances(), equal_nan=True, check_dtype=True)

    def noise(call: int) -> Callable[[float, int], Any]:
        def runs(epsilon: float, count: int) -> Any:
            samples = eager.noise(case.calls, epsilon, range(count))
            return None if samples is None else [run[call] for run in samples]

        return runs

    expected = eager(case.calls)
    return joined([judge(a, e, noise(i)) for i, (a, e) in enumerate(zip(outputs, expected))])


def judged_case(eager: Eager, i: int, x: Tensor) -> tuple[CallSequence, CheckedCase, Any]:
    """Return the case of a call, checked with eager's own outputs."""
    case = CallSequence("random" if i else "example", str(i), (((x,), {}),))
    outputs = eager(case.calls)
    return case, CheckedCase(case.kind, "", (), judged(eager, case, outputs)), outputs


def measured(name: str) -> sensitivity.Measurement:
    """Return the measurement of a program that is equal to its model."""
    make, inputs = (MODELS | UNLIKE)[name]
    torch.manual_seed(1)
    return measurement_of(make(), inputs())


def measurement_of(
    model: nn.Module, inputs: Sequence[Tensor], seconds: float = 1e9
) -> sensitivity.Measurement:
    eager, cases = Eager(model.eval()), []
    for i, x in enumerate(inputs):
        case, checked, outputs = judged_case(eager, i, x)
        cases.append(MatchingCase(case, limits_of(checked, outputs), outputs))
    cases = of_wrong_outputs(eager, cases)
    frozen = eager.changed_buffers(cases[0].case.calls[0])
    measurement = sensitivity.Measurement(eager, cases, frozen, seconds)
    measurement.run()
    return measurement


@pytest.mark.parametrize("name", MODELS)
def test_what_would_be_found_is_found(name: str) -> None:
    """Slices are wrong by 1 %, and the judge finds those that were predicted; of the others it
    finds few (the estimate is conservative), and none that changes no output."""
    measurement = measured(name)
    slices = [
        (one, i)
        for one in measurement.model.weights
        for i in np.flatnonzero(measurement.model.weights[one].sizes)
    ]
    order = np.random.default_rng(0).permutation(len(slices))[:SLICES]
    missed = 0
    for weight, i in (slices[at] for at in order):
        one = measurement.model.weights[weight]
        wrong = {weight: np.arange(len(one.sizes)) == i}
        cases = measurement.cases
        outputs = [measurement.trials.run(number, wrong) for number in range(len(cases))]
        is_found = any(
            judged(measurement.eager, case.case, output).verdict == "differ"
            for case, output in zip(cases, outputs)
        )
        assert is_found or not one.is_found[i], (weight, i, one.changes[i])
        if one.untested[i]:
            assert all(equal(o, c.expected) for o, c in zip(outputs, cases)), (weight, i)
        missed += is_found and not one.is_found[i]
    assert missed <= SLICES // 3


def power_of(name: str) -> Power:
    measurement = measured(name)
    return sensitivity._power(measurement, ["x"], ())


def test_parts_that_change_no_output_are_named() -> None:
    power = power_of("experts")
    idle = "gamma is 0", "experts.3.* never routed", "branch.* changes no output"
    assert power.untested[:3] == idle
    assert any(re.match("rows .*12..29 of emb never read$", line) for line in power.untested)
    assert power.share is not None and 0.4 < power.share < 0.8


@pytest.mark.parametrize(("name", "max_runs"), [("asleep", 60), ("woken", 90)])
def test_inactive_units_take_few_runs(
    monkeypatch: pytest.MonkeyPatch, name: str, max_runs: int
) -> None:
    """Slices are not tried one by one where all of a weight's together are not found, or where
    those that would be tried change nothing together."""
    runs, call = [], Eager.__call__

    def counted(self: Eager, *args: Any, **options: Any) -> Any:
        runs.append(args)
        return call(self, *args, **options)

    monkeypatch.setattr(Eager, "__call__", counted)
    power = power_of(name)
    assert len(runs) < max_runs  # the cases, their limits and the trials
    rows = [row for row in power.weights if row.name.startswith("branches")]
    assert len(rows) == 6 and not any(row.share for row in rows)


def test_weights_of_a_closure_are_not_called_idle() -> None:
    """A copy of such a model computes with the weights of the original."""
    torch.manual_seed(0)
    inner = nn.Linear(8, 4)

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner
            self.function = lambda x: inner(x)

        def forward(self, x: Tensor) -> Tensor:
            return self.function(x)

    result = check_model(Wrapped().eval(), (torch.randn(3, 8),), engines=("here",), progress=False)
    assert result.verdict == "match"
    assert result.power.share is None and not result.power.untested
    assert result.power.reason == sensitivity.CLOSURE


def test_columns_that_change_no_output_are_named() -> None:
    """They match with any other numbers; the columns beside them do not."""
    measurement = measured("padded")
    lines = sensitivity._power(measurement, ["x"], ()).untested
    assert lines[:2] == (
        "input channel 2 of conv.weight changes no output",
        "columns 5..8 of last.weight change no output",
    )
    columns = np.zeros((6, 9), bool)
    columns[:, 5:] = True
    assert measurement.trials.is_idle(0, {"last.weight": columns}, change=other)
    assert not measurement.trials.is_idle(0, {"last.weight": ~columns}, change=other)


def test_columns_that_multiply_dead_channels_have_no_sentence() -> None:
    """That of the channels is enough."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    net[0].bias.data[3] = -1000.0
    result = check_model(net, (torch.randn(3, 8),), engines=("here",), progress=False).power
    assert [line for line in result.untested if "no output" in line] == [
        "channel 3 of 0 changes no output"
    ]


@pytest.mark.parametrize("seconds", [1e-9, 1e9])
def test_what_there_is_no_time_for_is_named(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The rows that the first 16 cases read are known; of the others, that some are read. The
    layer that no case takes stays untested."""
    monkeypatch.setattr(sensitivity, "LATE_SHARE", 1e12)
    torch.manual_seed(0)
    experts = {"first": nn.Linear(8, 5), "second": nn.Linear(8, 5)}
    model = Fn(of_rows, table=nn.Embedding(30, 8), **experts)
    measurement = measurement_of(model, [torch.full((2,), i) for i in range(20)], seconds)
    lines = list(sensitivity._power(measurement, ["x"], ()).untested)
    rest = "rows 20..29 of table never read"
    if seconds < 1:
        rest = "a part of table.weight: not measured, for lack of time and of gradients"
    assert lines == ["second.* changes no output", rest]
    assert bool(measurement.model.weights["table.weight"].is_found[:16].all())


def test_equal_rows_do_not_cancel() -> None:
    """Each channel has an output in each of two rows, whose random signs may be opposite."""
    torch.manual_seed(0)
    net, x = nn.Linear(6, 64).eval(), torch.randn(1, 6).expand(2, 6).contiguous()
    result = check_model(net, x, n_random=0, engines=("here",), progress=False).power
    assert result.share == 1.0 and not result.untested


def test_a_branch_that_is_never_taken() -> None:
    """torch.cond runs without the mode that sees batch normalisation."""
    torch.manual_seed(0)
    branches = two_layers(lambda x, a, b: torch.cond(x.sum() > 0, a, b, (x,)))
    eager, x = Eager(branches()), torch.rand(2, 6)
    cases = [judged_case(eager, 0, x)]
    checked = CheckedCases(cases, frozen=(), names=["x"], unvaried=(), seconds=1e9)
    power = sensitivity.measure(eager, checked)
    assert power.untested == ("b.* changes no output",) and power.share == 0.5


def test_the_running_variance_of_a_batch_normalisation_is_tested() -> None:
    rows = {one.name: one.share for one in power_of("image").weights}
    assert rows["norm.running_var"] and rows["norm.running_mean"]


def test_the_model_stays_as_it_was() -> None:
    """Parameters have no gradients, the same numbers and flags."""
    model = Image().eval()
    model.conv.weight.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    assert check_model(model, (torch.randn(2, 3, 9, 9),), progress=False).power.share
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())
    assert not model.conv.weight.requires_grad and model.last.weight.requires_grad


class Pooled(nn.Module):
    """The mean of the rows that a mask keeps, or of all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        kept = mask[..., None].float()
        return self.last((x * kept).sum(1) / kept.sum(1))


def test_calls_in_a_row_that_write_to_a_cache_have_a_power() -> None:
    """Only the bias of the keys is not found: it adds the same number to all scores of a row. A
    percent of a bias near zero would not be found, either."""
    model, inputs = KvCache(), (torch.randn(1, 1, 16), torch.tensor([0]))
    nn.init.uniform_(model.qkv.bias, 0.1, 0.3)
    result = check_model(model, inputs, n_random=0, engines=("here",), progress=False)
    assert [case.kind for case in result] == ["example", "state"]
    assert result.power.share == pytest.approx(1 - 16 / 1088)


def test_the_report_has_the_power() -> None:
    """One line, what was not tested, a section of the page, and a key of the dict."""
    inputs = (torch.randn(1, 6, 8), torch.ones(1, 6))
    result = check_model(Pooled().eval(), inputs, n_random=1, progress=False)
    assert "would have found a 1 % error in 100 % of weights" in str(result)
    assert [row.name for row in result.power.weights] == ["last.weight", "last.bias"]
    assert [row.name for row in result.power.inputs] == ["x", "mask"]
    assert "would be found" in result.to_html() and result.as_dict()["power"]["share"] == 1.0


def test_an_input_of_one_value_is_named() -> None:
    x = torch.randn(1, 6, 8)
    mask, real = torch.ones(1, 6), [(x * 2, torch.ones(1, 6))]
    result = check_model(Pooled().eval(), (x, mask), n_random=0, real_inputs=real, progress=False)
    assert "mask had the same values in every case" in result.power.untested
    assert "not tested: mask had the same values in every case" in str(result)


def test_no_power_of_wrong_programs_and_without_weights() -> None:
    result = check_model(Fn(lambda x: x * 2), (torch.randn(3),), progress=False)
    assert result.power.share is None and not result.power.summary()
    inputs = (torch.randn(1, 6, 8), torch.ones(1, 6))
    wrong = Pooled().eval()
    wrong.last.weight.data.mul_(1.01)
    result = check_model(Pooled().eval(), inputs, program=export(wrong, *inputs), progress=False)
    assert result.verdict == "differ" and result.power.share is None
    assert "would have found" not in str(result)


def test_numbers_as_text() -> None:
    assert ranges([1, 2, 3, 5, 7, 8]) == "1..3, 5, 7..8"
    assert ranges([1, 3, 5, 7, 9, 11]) == "1, 3, 5, 7, 2 more"
    texts = {0: "0 %", 0.001: "under 1 %", 0.974: "97 %", 0.999: "over 99 %", 1: "100 %"}
    assert {x: percent(x) for x in texts} == texts


@pytest.mark.parametrize("shape", [(), (5,), (4, 1), (4, 6), (4, 6, 2, 3)])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_slices_have_the_number_of_elements_but_zeros(
    shape: tuple[int, ...], has_zeros: bool, whole: bool
) -> None:
    value = torch.rand(shape, generator=torch.Generator().manual_seed(0)) + 0.5
    if has_zeros:
        value.view(-1)[::3] = 0
    slices, counted = Slices.of(value, whole=whole), (value != 0).numpy()
    rows = counted.reshape(1 if whole or not shape else shape[0], -1).sum(1)
    assert slices.sizes.tolist() == rows.tolist()
    has_columns = len(shape) > 1 and shape[1] > 1 and not whole
    columns = counted.reshape(*shape[:2], -1).sum((0, 2)).tolist() if has_columns else []
    assert slices.columns.tolist() == columns


def test_gradients_that_are_no_numbers_are_known_as_such() -> None:
    value, gradient = torch.ones(3, 2), torch.ones(3, 2)
    assert Slices.of(value).see(value, gradient, 1.0)[1]
    gradient[1, 1] = torch.nan
    for dtype in (torch.float32, torch.float16):
        one = Slices.of(value)
        changes, is_finite = one.see(value.to(dtype), gradient.to(dtype), 1.0)
        assert not is_finite and np.isfinite(changes).all()
        assert one.is_touched.all() and one.is_column_touched.all()
