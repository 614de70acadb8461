"""The first node at which a device leaves: faults at every node of recorded programs, and healthy
arithmetic of other origin than the allowance's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c.blame.arithmetic import Allowance, kind_of, step_of, terms_of
from executorch_c.blame.device import DeviceValues
from executorch_c.blame.locating import compare_nodes, locate
from executorch_c.blame.places import Place
from executorch_c.blame.replay import Replay
from tests.backends.recorded import Recorded

BACKENDS = Path(__file__).parents[1] / "backends"
PROGRAMS = [
    ("vulkan", "cnn_fp16"),
    ("vulkan", "cnn_xq8"),
    ("vulkan", "lin_8da4w"),
    ("coreml", "cnn_fp16"),
    ("coreml", "mlp_int8"),
    ("tosa", "cnn_int8"),
    ("mlx", "cnn"),
]

Values = dict[str, Any]


def recorded(backend: str, name: str) -> tuple[str, list[np.ndarray]]:
    folder = Recorded(BACKENDS / f"{backend}_programs")
    return str(folder.folder / f"{name}.pte"), folder.arrays(name)[0]


@pytest.fixture(scope="module", params=PROGRAMS, ids=str)
def allowance(request: pytest.FixtureRequest) -> Allowance:
    return Allowance(Replay(*recorded(*request.param)))


def device(allowance: Allowance, at: str | None = None) -> DeviceValues:
    """Return a run of a device that rounds results once more, halves up to a unit in the last
    place, and writes zeros into the first quarter of one result."""
    rng = np.random.default_rng(7)
    values: Values = {}

    def change(place: Place, array: Any) -> None:
        kind = kind_of(place.name)
        if array.dtype.kind == "f" and kind != "exact" and place.kind != "delegate":
            ulps = rng.integers(-1, 2, array.shape)
            array[...] = array * (1 + ulps * np.finfo(array.dtype).eps).astype(array.dtype)
        if place.id == at:
            array.reshape(-1)[: -(-array.size // 4)] = 0
        values[place.id] = array.copy()

    outputs, _ = allowance.replay.run(change)
    return DeviceValues("test", tuple(outputs), values)


def is_shown(allowance: Allowance, place: Place) -> bool:
    """Return True if a quarter of zeros changes the result of a place."""
    seen: Values = {}
    allowance.replay.run(lambda one, array: seen.setdefault(one.id, array.copy()))
    quarter = seen[place.id].reshape(-1)[: -(-seen[place.id].size // 4)]
    return bool(quarter.any())


def test_a_healthy_device_never_leaves(allowance: Allowance) -> None:
    rows = compare_nodes(allowance, device(allowance))
    assert rows and all(row.is_right for row in rows)


def test_each_fault_is_found_at_its_node(allowance: Allowance) -> None:
    places = allowance.replay.places()
    nodes = [place for place in places.values() if place.kind == "node"]
    shown = [place for place in nodes if is_shown(allowance, place)]
    assert len(shown) >= len(nodes) - 2
    for place in shown:
        rows = compare_nodes(allowance, device(allowance, place.id), places)
        first = next(row for row in rows if not row.is_right)
        assert first.place.id == place.id and first.suspects == (first.place,)


def test_values_of_some_nodes_leave_suspects() -> None:
    """Between a right value and a wrong one stand all nodes without a value."""
    allowance = Allowance(Replay(*recorded("coreml", "cnn_fp16")))
    run = device(allowance, "d0.4")
    some = {name: run.values[name] for name in ("d0.1", "d0.5")}
    found = locate(*recorded("coreml", "cnn_fp16"), DeviceValues("test", run.outputs, some))
    assert found is not None and found.place.id == "d0.5"
    assert [place.id for place in found.suspects] == ["d0.2", "d0.3", "d0.3:1", "d0.4", "d0.5"]


def test_unknown_ids_and_other_sizes() -> None:
    program, inputs = recorded("mlx", "mlp")
    for values, text in (
        ({"d0.77": np.zeros(3)}, "run.npz: no result of the program is 'd0.77'"),
        ({"d0.1": np.zeros(3)}, r"run.npz: 'd0.1' has shape \[3\], expected \["),
    ):
        with pytest.raises(ValueError, match=text):
            locate(program, inputs, DeviceValues("run.npz", (), values))


# ---- arithmetic -------------------------------------------------------------------------------


def sequential(x: Any, weight: Any, bias: Any) -> Any:
    """Return a linear layer whose sums are accumulated in halves, one term after the other."""
    total = np.zeros((x.shape[0], weight.shape[0]), np.float16)
    for k in np.random.default_rng(1).permutation(x.shape[1]):
        term = (x[:, k, None] * weight[None, :, k]).astype(np.float16)
        total = (total + term).astype(np.float16)
    return (total + bias).astype(np.float16)


@pytest.mark.parametrize("width", [16, 256, 2048])
@pytest.mark.parametrize("is_positive", [False, True])
def test_sums_in_halves_are_within_their_rounding(width: int, is_positive: bool) -> None:
    """A right sum in halves, in a random order, is within the limit; without a term that matters
    it is not."""
    from executorch_c.blame.arithmetic import Arithmetic, Rounding, Spread, disturb
    from executorch_c.compare import tolerance

    rng = np.random.default_rng(width)
    x, weight = rng.standard_normal((8, width)), rng.standard_normal((32, width)) / width**0.5
    x = (np.abs(x) if is_positive else x).astype(np.float16)
    weight, bias = weight.astype(np.float16), rng.standard_normal(32).astype(np.float16)
    exact = (x.astype(np.float64) @ weight.T.astype(np.float64) + bias).astype(np.float16)
    terms = terms_of("sum", [x.shape, weight.shape, bias.shape], exact.shape)
    assert terms == width
    samples = []
    for seed in range(8):
        sample = exact.copy()
        disturb(sample, Rounding("sum", terms, Arithmetic()), np.random.default_rng(seed), False)
        samples.append(sample)
    spread = Spread(exact, tuple(samples))
    actual, wanted, limits = spread.beside(sequential(x, weight, bias))
    assert not tolerance.outside(actual, wanted, limits)
    wrong = exact.copy()
    wrong[:2] = wrong[:2] / 2
    assert tolerance.outside(*spread.beside(wrong))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::convolution.out", "sum"),
        ("aten::relu.out", "exact"),
        ("et_vk.conv_with_clamp.default", "sum"),
        ("aten.max_pool2d_with_indices.default", "exact"),
        ("Convolution (NHWC, F32) IGEMM", "sum"),
        ("Addmm", "sum"),
        ("Transpose", "exact"),
        ("RESCALE", "once"),
        ("REDUCE_MAX", "exact"),
        ("EXP", "function"),
        ("sin", "angle"),
        ("aten.expand_copy.default", "exact"),
        ("log_softmax", "sum"),
        ("add", "once"),
        ("dequantize", "exact"),
    ],
)
def test_kinds_of_nodes(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_steps_of_quantised_numbers() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-128, 128, (4, 50))
    assert step_of((codes * np.float32(0.037)).astype(np.float32)) == pytest.approx(0.037, rel=1e-5)
    assert step_of(rng.standard_normal((4, 50)).astype(np.float32)) == 0
    assert step_of(rng.standard_normal(10).astype(np.float32)) == 0
