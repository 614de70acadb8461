"""Inputs of check_model: like the example, at the edges of shapes, in range, and never constant."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import to_edge
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_c.check import inputs, roles
from executorch_c.check.roles import InputRole, roles_of
from executorch_c.testing import CheckResult, check_model
from tests.exports import Fn, export, manager


def role_of(model: Any, *example: Any, index: int = 0) -> InputRole:
    """Return what a function or module does with an input."""
    module = model if isinstance(model, nn.Module) else Fn(model)
    role = roles_of(module, (example, {})).inputs[index]
    assert role is not None
    return role


def drawn(example: Tensor, role: InputRole, count: int = 3) -> list[Tensor]:
    """Return an input of several random calls."""
    return [inputs.draw(((example,), {}), None, [role], seed)[0][0] for seed in range(count)]


IDS = torch.zeros(2, 6, dtype=torch.long)
TABLE = torch.randn(50, 4)

# ---- roles ------------------------------------------------------------------------------------

USES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, int]]] = {
    "embedding": (lambda x: F.embedding(x, TABLE), (0, 49)),
    "beside != pad": (lambda x: F.embedding(x, TABLE) * (x != 3)[..., None], (0, 49)),
    "another operator reads them": (lambda x: F.embedding(x, TABLE) + x[..., None], (0, 49)),
    "two tables": (lambda x: F.embedding(x, TABLE) + TABLE[:20][x], (0, 19)),
    "shifted": (lambda x: F.embedding(x + 2, TABLE), (-2, 47)),
    "index": (lambda x: TABLE[x.flatten()], (0, 49)),
    "second dimension": (lambda x: TABLE.t()[:, x], (0, 49)),
    "index_select": (lambda x: TABLE.index_select(1, x[0]), (0, 3)),
    "gather": (lambda x: TABLE.gather(1, x), (0, 3)),
    "one_hot": (lambda x: F.one_hot(x, 7).float(), (0, 6)),
    "behind cat": (lambda x: F.embedding(torch.cat([x, x[:, :1]], 1), TABLE), (0, 49)),
    "behind int32": (lambda x: F.embedding(x.int().view(-1), TABLE), (0, 49)),
}
"""Functions of indices, and the range that is valid in each."""


@pytest.mark.parametrize("name", USES)
def test_ranges_of_indices(name: str) -> None:
    function, limits = USES[name]
    role = role_of(function, IDS)
    assert (role.low, role.high) == limits
    values = torch.cat([one.flatten() for one in drawn(IDS, role, 40)])
    assert (values.min(), values.max()) == (max(limits[0], 0), limits[1])
    assert all(torch.isfinite(function(one).float()).all() for one in drawn(IDS, role))


def test_numbers_that_a_model_compares_with_are_drawn_often() -> None:
    def function(x: Tensor) -> Tensor:
        return F.embedding(x, TABLE) * (x != 3)[..., None] + x.clamp(max=7).sum()

    role = role_of(function, IDS)
    assert role.compared == {3, 7}
    values = torch.cat([one.flatten() for one in drawn(IDS, role, 40)])
    assert 0.05 < (values == 3).double().mean() < 0.2


def test_positions_in_buffers() -> None:
    class Writes(nn.Module):
        def __init__(self, way: str) -> None:
            super().__init__()
            self.way = way
            self.register_buffer("cache", torch.zeros(1, 8, 4))

        def forward(self, x: Tensor, pos: Tensor) -> Tensor:
            if self.way == "index_copy":
                self.cache.index_copy_(1, pos, x)
            elif self.way == "ring":
                self.cache.index_copy_(1, pos % 6, x)
            elif self.way == "functional":
                self.cache.copy_(self.cache.index_copy(1, pos, x))
            elif self.way == "index_put":
                self.cache[:, pos] = x
            else:
                start = int(pos)
                self.cache[:, start : start + 1] = x
            return self.cache * 2

    example = torch.randn(1, 1, 4), torch.tensor([0])
    lengths = {
        way: role_of(Writes(way), *example, index=1).length
        for way in ("index_copy", "ring", "functional", "index_put", "item")
    }
    assert lengths == {"index_copy": 8, "ring": 6, "functional": 8, "index_put": 8, "item": 8}
    assert role_of(Writes("ring"), *example, index=1).high is None
    role = role_of(lambda x, y: x.scatter(0, y, 1.0), torch.zeros(9), torch.tensor([4, 0]), index=1)
    assert role.is_unique and role.length is None
    for one in drawn(torch.tensor([4, 0, 2, 7]), role, 20):
        assert len(one.unique()) == 4 and one.max() <= 8


def test_a_model_that_no_mode_can_run_has_names() -> None:
    class Refuses(nn.Module):
        def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
            if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
                raise RuntimeError("under a mode")
            return TABLE[ids] * attention_mask

    call = ((IDS[0, :4], IDS[0, :4]), {})
    roles = roles_of(Refuses(), call).inputs
    assert [role.name for role in roles if role] == ["ids", "attention_mask"]
    assert [role.high for role in roles if role] == [None, None]
    exported = torch.export.export(Fn(lambda ids, mask: TABLE[ids] * mask), *call)
    roles = roles_of(Refuses(), call, exported).inputs
    assert [role.high for role in roles if role] == [49, None]


def test_a_model_with_branches_is_followed() -> None:
    def model(ids: Tensor, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,)) + TABLE[ids]

    call = ((IDS[0, :4], torch.ones(4)), {})
    exported = torch.export.export(Fn(model), *call)
    for eager in (Fn(model), exported.module()):
        [ids, x] = roles_of(eager, call, exported).inputs
        assert ids is not None and x is not None and (ids.high, x.high) == (49, None)
    assert torch.equal(model(*call[0]), torch.ones(4) * 2 + TABLE[:1].repeat(4, 1))


# ---- values -----------------------------------------------------------------------------------

MASKS = {
    "ones of int64": torch.ones(2, 8, dtype=torch.long),
    "ones of bool": torch.ones(2, 8, dtype=torch.bool),
    "no padding of bool": torch.zeros(2, 8, dtype=torch.bool),
    "ones of float32": torch.ones(2, 8),
    "additive zeros": torch.zeros(2, 8),
    "additive causal": torch.full((8, 8), float("-inf")).triu(1),
    "bool causal": torch.ones(8, 8, dtype=torch.bool).tril(),
    "bool causal, True is masked": torch.ones(8, 8, dtype=torch.bool).triu(1),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_have_prefixes_holes_and_suffixes(name: str) -> None:
    """No two are equal, and each row keeps an element."""
    example = MASKS[name]
    first = example.flatten()[0]
    drawn_masks = drawn(example, InputRole("attention_mask"), 9)
    assert len({str(one.tolist()) for one in [example, *drawn_masks]}) >= 8 - 2 * ("causal" in name)
    for one in drawn_masks:
        assert one.dtype == example.dtype and (one == first).any(-1).all()
        assert not one.isnan().any()
    prefix = drawn_masks[0] == first
    assert (prefix.int().diff(dim=-1) <= 0).all() and not prefix.all()
    if "causal" in name and "-inf" in str(example[0, -1].item()):
        assert (drawn_masks[0] <= example).all()


def test_other_integers() -> None:
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    first = drawn(image, InputRole("image"))[0]
    assert first.min() < 10 and first.max() > 245
    steps = {int(one) for one in drawn(torch.tensor([10]), InputRole("timestep"), 30)}
    assert len(steps) > 20 and min(steps) >= 0 and 500 < max(steps) < 1000
    assert len({int(one) for one in drawn(torch.tensor(3), InputRole("n"), 30)}) > 3
    assert {int(one) for one in drawn(torch.tensor([3]), InputRole("n", is_scalar=True))} == {3}
    assert {bool(one) for one in drawn(torch.tensor(True), InputRole("flag"))} == {True, False}


# ---- faults -----------------------------------------------------------------------------------


class Pooling(nn.Module):
    """Embeddings, averaged over a mask."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last, self.fault = nn.Embedding(50, 8), nn.Linear(8, 4), fault

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.table(ids)
        if self.fault == "rows":
            x = x * torch.where(ids < 40, 1.0, 1.5)[..., None]
        if self.fault == "mask":
            return self.last(x.mean(1)) + 0 * mask.sum()
        m = mask[..., None].float() * (ids != 7)[..., None]
        if self.fault == "pad":
            m = mask[..., None].float() + 0 * ids[..., None]
        return self.last((x * m).sum(1) / m.sum(1).clamp(min=1))


@pytest.mark.parametrize("fault", ["", "mask", "rows", "pad"])
def test_faults_that_a_constant_input_hides(fault: str) -> None:
    example = torch.ones(1, 6, dtype=torch.long), torch.ones(1, 6, dtype=torch.long)
    result = check_model(Pooling().eval(), example, program=export(Pooling(fault).eval(), *example))
    assert result.ok is (not fault), result
    assert result.cases[0].verdict == "match"


def test_numbers_that_eager_refuses_are_drawn_like_the_example() -> None:
    """A use that is not recognised: the range of the example is tried, and the case is run."""
    result = check_model(lambda n: TABLE[n * n].sum(-1), (torch.tensor([2, 5, 7]),))
    assert result.ok and len(result) == 4 and {c.verdict for c in result} == {"match"}, result
    numbers = np.concatenate([case.inputs[0][0] for case in result])
    assert numbers.min() >= 2 and numbers.max() <= 7


def test_numbers_stay_within_the_contract_of_the_export() -> None:
    def sliced(x: Tensor, n: Tensor) -> Tensor:
        size = n.item()
        torch._check(size >= 1)
        torch._check(size <= 4)
        return x[:size].sum(0)

    result = check_model(sliced, (torch.randn(9, 3), torch.tensor(2)), n_random=8)
    assert result.ok and {case.verdict for case in result} == {"match"}, result
    assert {int(case.inputs[0][1]) for case in result} > {2}


# ---- right programs ---------------------------------------------------------------------------


SMALL = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 32, "attn_implementation": "eager"}
GPT2 = {"vocab_size": 60, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
T5 = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", SMALL),
    "roberta": ("RobertaModel", "RobertaConfig", SMALL | {"pad_token_id": 1}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2 | {"attn_implementation": "eager"}),
    "clip": (
        "CLIPTextModel",
        "CLIPTextConfig",
        SMALL | {"eos_token_id": 59, "max_position_embeddings": 16},
    ),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
}
"""RoBERTa takes positions from ids != pad, CLIP pools where the id is the end of the text."""


def _transformer(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    import transformers

    torch.manual_seed(0)
    model, config, sizes = TRANSFORMERS[kind]
    options = {"use_cache": False} if kind in ("gpt2", "t5") else {}
    built = getattr(transformers, model)(getattr(transformers, config)(**sizes, **options))
    ids, ones = torch.randint(3, 60, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    more = {
        "bert": {"token_type_ids": torch.zeros_like(ids)},
        "t5": {"decoder_input_ids": torch.randint(3, 60, (2, 4))},
    }
    return built.eval(), {"input_ids": ids, "attention_mask": ones, **more.get(kind, {})}


class Denoiser(nn.Module):
    """The time step and class of a diffusion model."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.time = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(16, 8)
        self.kinds, self.last = nn.Embedding(10, 8), nn.Conv2d(8, 3, 1)

    def forward(self, sample: Tensor, timestep: Tensor, class_labels: Tensor) -> Tensor:
        angles = timestep[:, None].float() * torch.exp(-torch.arange(8) / 2)
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1)) + self.kinds(class_labels)
        return self.last(F.silu(self.conv(sample) + time[..., None, None]))


class Segments(nn.Module):
    """A uint8 picture, a bool mask of its pixels, and lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, image: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv(image.float() / 255)
        seen = torch.arange(x.shape[-1]) < lengths[:, None, None, None]
        return x.masked_fill(~mask[:, None], -1e9).amax(1), (x * seen).mean((2, 3))


class Attends(nn.Module):
    """Attention with padding and a causal mask as inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, padding: Tensor, attn_mask: Tensor) -> Tensor:
        masks = {"key_padding_mask": padding, "attn_mask": attn_mask}
        return self.attention(x, x, x, need_weights=False, **masks)[0]  # type: ignore


MASK = torch.ones(2, 6, 6, dtype=torch.bool)
PICTURES = (torch.zeros(2, 3, 6, 6, dtype=torch.uint8), MASK, torch.tensor([6, 6]))
PADDING = torch.zeros(2, 5, dtype=torch.bool)
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
RIGHT: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    **{name: partial(_transformer, name) for name in TRANSFORMERS},
    "denoiser": lambda: (
        Denoiser().eval(),
        (torch.randn(1, 3, 6, 6), torch.tensor([10]), torch.tensor([0])),
    ),
    "segments": lambda: (Segments().eval(), PICTURES),
    "attends": lambda: (Attends().eval(), (torch.randn(2, 5, 8), PADDING, CAUSAL)),
}
CHEAP = ("denoiser", "segments", "attends")


@pytest.mark.parametrize(
    "name",
    [name if name in CHEAP else pytest.param(name, marks=pytest.mark.heavy) for name in RIGHT],
)
def test_right_programs_match(name: str) -> None:
    """Every case is run and matches; each input of integers and bools changes."""
    if name not in CHEAP:
        pytest.importorskip("transformers")
    model, example = RIGHT[name]()
    result = check_model(model, example, n_random=4)
    assert result.ok and {case.verdict for case in result} == {"match"}, result
    assert_inputs_change(result)


def assert_inputs_change(result: CheckResult) -> None:
    columns = zip(*(case.inputs[0] for case in result if case.kind in ("example", "random")))
    for column in columns:
        assert any(not np.array_equal(column[0], other) for other in column[1:])


# ---- shapes -----------------------------------------------------------------------------------


class Halves(nn.Module):
    """The mean of pairs: of an even number of columns."""

    def __init__(self, check: bool) -> None:
        super().__init__()
        self.check = check

    def forward(self, x: Tensor) -> Tensor:
        if self.check:
            torch._check(x.shape[1] % 2 == 0)
        return x[:, ::2].sum(1) * 0.5


@pytest.mark.parametrize("form", ["flow", "ExportedProgram", "program"])
def test_a_condition_on_shapes_that_the_program_has_lost(form: str) -> None:
    x, shapes = torch.randn(2, 8), {"x": {1: torch.export.Dim.DYNAMIC(min=2, max=12)}}
    noted = []
    for checks in (True, False):
        model = Halves(checks).eval()
        exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
        if form == "flow":
            result = check_model(model, x, dynamic_shapes=shapes, n_random=0)
        elif form == "ExportedProgram":
            result = check_model(exported, n_random=0)
        else:
            pte = bytes(to_edge(exported).to_executorch().buffer)
            result = check_model(model, x, program=pte, n_random=0)
        assert result.ok, result
        noted.append([note for note in result.notes if note.startswith("the program accepts")])
    [[note], []] = noted
    size = "size 7 of dimension 1 of input 0" if form == "program" else "x.shape[1]=7"
    assert f"the program accepts {size}, which the model refuses (" in note
    assert note.endswith("a .pte has no such condition; check it before the call")


def like(example: Tensor, seed: int = 0) -> Tensor:
    [drawn] = inputs.draw(((example,), {}), None, [None], seed)[0]
    assert (drawn.shape, drawn.dtype, drawn.stride()) == (
        example.shape,
        example.dtype,
        example.stride(),
    )
    return drawn


def caches(x: Tensor, cache: Tensor, factor: float = 1.0, writes: bool = True) -> Tensor:
    """Change an input in place, as models with caches that the caller owns do."""
    new = torch.cat([cache[1:], x[:1] * factor])
    return x * (cache.copy_(new) if writes else new)[0]


@pytest.mark.parametrize(
    ("program", "verdict", "says"),
    [
        (caches, "match", ""),
        (partial(caches, factor=1.01), "differ", "output 0 ('a changed input')"),
        (partial(caches, writes=False), "differ", "1 output, expected 2"),
    ],
)
def test_inputs_that_the_model_changes(program: Any, verdict: str, says: str) -> None:
    example = torch.randn(2, 4), torch.randn(3, 4)
    pte = export(program, *(x.clone() for x in example))
    result = check_model(caches, example, program=pte)
    assert result.verdict == verdict
    assert says in str(result)


def test_random_floats_are_like_the_example() -> None:
    example = torch.randn(20000) * 3 + 50
    drawn = like(example)
    assert abs(drawn.mean() - 50) < 0.2 and abs(drawn.std() - 3) < 0.1
    assert not torch.equal(drawn, like(example, 1)) and torch.equal(drawn, like(example))
    unit = like(torch.rand(1000))
    assert 0 <= unit.min() < 0.1 and 0.9 < unit.max() <= 1
    assert (like(torch.rand(1000) * 255) >= 0).all()
    assert (like(-torch.rand(1000) * 9) <= 0).all()
    assert set(like((torch.arange(99) % 2 * 255).float()).tolist()) == {0.0, 255.0}
    assert like(torch.randn(5, dtype=torch.complex64)).is_complex()
    like(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).half())


def test_masks_with_infinities_stay() -> None:
    mask = torch.full((4, 4), float("-inf")).triu(1)
    assert torch.equal(like(mask), mask)
    example = ((mask,), {})
    [longer] = inputs.draw(example, [(6, 4)], [None], 0)[0]
    assert torch.equal(longer[:4], mask) and torch.equal(longer[4:], mask[:2])


def test_random_integers_and_bools_stay_in_range() -> None:
    drawn = like(torch.tensor([3, 9] * 500))
    assert (drawn.min(), drawn.max()) == (3, 9)
    assert torch.equal(like(torch.ones(5, dtype=torch.int32)), torch.ones(5, dtype=torch.int32))
    assert like(torch.ones(50, dtype=torch.bool)).all()
    assert 0 < like(torch.arange(100) % 2 == 0).sum() < 100


def test_indices_of_embeddings_are_all_rows_and_no_more() -> None:
    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.kinds = nn.Embedding(50, 4), nn.Embedding(3, 4)

        def forward(self, ids: Tensor, kind: Tensor, other: Tensor) -> Tensor:
            return self.words(ids.view(-1)) + self.kinds(kind) + self.words(other) * other[:, None]

    example = (torch.zeros(2, 20, dtype=torch.long), *torch.zeros(2, 40, dtype=torch.long))
    ranges = roles.roles_of(Tables(), (example, {})).inputs
    assert [(role.low, role.high) for role in ranges if role] == [(0, 49), (0, 2), (0, 49)]
    result = check_model(Tables().eval(), example)
    assert result and max(case.inputs[0][0].max() for case in result) > 40


def test_edges_of_tied_and_derived_sizes() -> None:
    n, m = Dim("n", min=2, max=8), Dim("m", max=5)

    def f(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return torch.cat([x, x]) * y.sum() + z.sum()

    example = (torch.randn(4, 3), torch.randn(8, 2), torch.randn(3, 4))
    shapes = (({0: n}, {0: 2 * n}, {0: m, 1: n}),)
    result = check_model(Fn(f), example, dynamic_shapes=shapes, n_random=0)
    assert result, result
    sizes = [tuple(a.shape for a in case.inputs[0]) for case in result if case.kind == "edge"]
    assert all(x[0] * 2 == y[0] and z[1] == x[0] for x, y, z in sizes)
    edges = {(2, 1), (8, 5), (3, 2), (2, 3), (8, 3), (4, 1)}
    assert {(x[0], z[0]) for x, _, z in sizes} >= edges


def test_wrong_arguments() -> None:
    x = torch.randn(3)
    two = bytes(manager(Fn(torch.add), x, x).buffer)
    for message, args, options in (
        ("`flow` is 'portabel', did you mean 'portable'", (torch.tanh, x), {"flow": "portabel"}),
        ("`flow` is 'x', expected one of portable, ", (torch.tanh, x), {"flow": "x"}),
        ("differ between two equal calls", (nn.Dropout(), x), {}),
        (r"`real_inputs\[0\]` has 2 positional", (torch.tanh, x), {"real_inputs": [(x, x)]}),
        ("expected a tuple of positional arguments", (torch.tanh, 3), {}),
        ("`model` is a int", (3, x), {}),
        ("`inputs` is missing", (torch.tanh,), {}),
        ("`n_random` is -1", (torch.tanh, x), {"n_random": -1}),
        ("takes 2 inputs, the example has 1", (torch.tanh, x), {"program": two}),
    ):
        error = TypeError if "expected a tuple" in message or "a int" in message else ValueError
        with pytest.raises(error, match=message):
            check_model(*args, **options)
