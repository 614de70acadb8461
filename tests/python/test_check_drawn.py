"""Inputs that check_model draws and derives: like the example, at the edges, in range."""

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from executorch_c.check import inputs, roles
from executorch_c.testing import check_model
from tests.exports import Fn, export, manager


def drawn(example: Tensor, seed: int = 0) -> Tensor:
    [found] = inputs.draw(((example,), {}), None, [None], seed)[0]
    assert (found.shape, found.dtype, found.stride()) == (
        example.shape,
        example.dtype,
        example.stride(),
    )
    return found


class Caches(nn.Module):
    """Changes an input in place, as models with caches that the caller owns do."""

    def __init__(self, factor: float = 1.0, writes: bool = True) -> None:
        super().__init__()
        self.factor, self.writes = factor, writes

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        new = torch.cat([cache[1:], x[:1] * self.factor])
        return x * (cache.copy_(new) if self.writes else new)[0]


@pytest.mark.parametrize(
    ("program", "verdict", "says"),
    [
        (Caches(), "match", ""),
        (Caches(1.01), "differ", "output 0 ('a changed input')"),
        (Caches(writes=False), "differ", "1 output, expected 2"),
    ],
)
def test_inputs_that_the_model_changes(program: nn.Module, verdict: str, says: str) -> None:
    example = torch.randn(2, 4), torch.randn(3, 4)
    pte = export(program.eval(), *(x.clone() for x in example))
    result = check_model(Caches().eval(), example, program=pte)
    assert result.verdict == verdict
    assert says in str(result)


def test_random_floats_are_like_the_example() -> None:
    example = torch.randn(20000) * 3 + 50
    found = drawn(example)
    assert abs(found.mean() - 50) < 0.2 and abs(found.std() - 3) < 0.1
    assert not torch.equal(found, drawn(example, 1)) and torch.equal(found, drawn(example))
    unit = drawn(torch.rand(1000))
    assert 0 <= unit.min() < 0.1 and 0.9 < unit.max() <= 1
    assert (drawn(torch.rand(1000) * 255) >= 0).all()
    assert (drawn(-torch.rand(1000) * 9) <= 0).all()
    assert set(drawn((torch.arange(99) % 2 * 255).float()).tolist()) == {0.0, 255.0}
    assert drawn(torch.randn(5, dtype=torch.complex64)).is_complex()
    drawn(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).half())


def test_masks_with_infinities_stay() -> None:
    mask = torch.full((4, 4), float("-inf")).triu(1)
    assert torch.equal(drawn(mask), mask)
    example = ((mask,), {})
    [longer] = inputs.draw(example, [(6, 4)], [None], 0)[0]
    assert torch.equal(longer[:4], mask) and torch.equal(longer[4:], mask[:2])


def test_random_integers_and_bools_stay_in_range() -> None:
    found = drawn(torch.tensor([3, 9] * 500))
    assert (found.min(), found.max()) == (3, 9)
    assert torch.equal(drawn(torch.ones(5, dtype=torch.int32)), torch.ones(5, dtype=torch.int32))
    assert drawn(torch.ones(50, dtype=torch.bool)).all()
    assert 0 < drawn(torch.arange(100) % 2 == 0).sum() < 100


def test_indices_of_embeddings_are_all_rows_and_no_more() -> None:
    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.kinds = nn.Embedding(50, 4), nn.Embedding(3, 4)

        def forward(self, ids: Tensor, kind: Tensor, other: Tensor) -> Tensor:
            return self.words(ids.view(-1)) + self.kinds(kind) + self.words(other) * other[:, None]

    example = (torch.zeros(2, 20, dtype=torch.long), *torch.zeros(2, 40, dtype=torch.long))
    found = roles.roles_of(Tables(), (example, {})).inputs
    assert [(role.low, role.high) for role in found if role] == [(0, 49), (0, 2), (0, 49)]
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
    found = [tuple(a.shape for a in case.inputs[0]) for case in result if case.kind == "edge"]
    assert all(x[0] * 2 == y[0] and z[1] == x[0] for x, y, z in found)
    assert {(x[0], z[0]) for x, _, z in found} >= {(2, 1), (8, 5), (3, 2), (2, 3), (8, 3), (4, 1)}


def test_wrong_arguments() -> None:
    x = torch.randn(3)
    with pytest.raises(ValueError, match="`flow` is 'portabel', expected one of portable, xnnpack"):
        check_model(torch.tanh, (x,), flow="portabel")
    with pytest.raises(ValueError, match="differ between two equal calls"):
        check_model(nn.Dropout(), (x,))
    with pytest.raises(ValueError, match=r"`real_inputs\[0\]` has 2 positional arguments"):
        check_model(torch.tanh, (x,), real_inputs=[(x, x)])
    with pytest.raises(TypeError, match="expected a tuple of positional arguments"):
        check_model(torch.tanh, 3)
    with pytest.raises(TypeError, match="`model` is a int"):
        check_model(3, (x,))
    with pytest.raises(ValueError, match="`inputs` is missing"):
        check_model(torch.tanh)
    with pytest.raises(ValueError, match="`n_random` is -1"):
        check_model(torch.tanh, (x,), n_random=-1)
    two = bytes(manager(Fn(torch.add), x, x).buffer)
    with pytest.raises(ValueError, match="takes 2 inputs, the example has 1"):
        check_model(torch.tanh, (x,), program=two)
