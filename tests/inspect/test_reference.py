"""What the reference runtime does with operators: the table and its look-up."""

import pytest

from executorch_c import Runtime
from executorch_c.inspect import reference
from executorch_c.inspect.reference import Behaviour, OperatorCall
from executorch_c.inspect.structure import View
from tests.plans import Plan, build


def step(name: str, plan: Plan) -> tuple[Behaviour, ...]:
    """Return the behaviours of the last call of a plan."""
    view = View(Runtime.get().load_program(build(plan)), "forward")
    assert view.steps[-1].title == name
    return reference.of_step(view, view.steps[-1])


def padding(*pad: int) -> Plan:
    plan = Plan()
    x, out = plan.input((1, 3, 4, 4)), plan.output((1, 3, 4, 4 + sum(pad)))
    plan.call("aten::constant_pad_nd.out", x, list(pad), 0.0, out)
    return plan


def remainder(dtype: str) -> Plan:
    plan = Plan()
    x, y, out = plan.input((4,), dtype), plan.input((4,), dtype), plan.output((4,), dtype)
    plan.call("aten::remainder.Tensor_out", x, y, out)
    return plan


def test_rows_by_argument() -> None:
    (row,) = step("aten::constant_pad_nd.out", padding(-1, 2))
    assert (row.does, row.when, row.is_certain) == ("rejects", "pad: negative", True)
    assert not step("aten::constant_pad_nd.out", padding(1, 2))


def test_rows_by_layout() -> None:
    (row,) = reference.behaviours("aten::_softmax.out", ["float32"], ["channels-last"])
    assert (row.does, row.is_certain) == ("rejects", True)
    assert not reference.behaviours("aten::_softmax.out", ["float32"], ["contiguous"])


def test_rows_by_dtype() -> None:
    assert {row.does for row in step("aten::remainder.Tensor_out", remainder("int16"))} == {
        "differs"
    }
    assert not step("aten::remainder.Tensor_out", remainder("float32"))


def test_an_operator_that_it_lacks() -> None:
    (row,) = reference.behaviours("aten::as_strided_scatter.out", ["float32"])
    assert row.does == "lacks"
    assert not reference.behaviours("aten::relu.out", ["float32"], ["contiguous"])
    assert not reference.behaviours("test::nobody_knows.out")


CALLS = [(frozenset({"pad: negative"}), "rejects"), (frozenset({"value: 0"}), "differs")]


@pytest.mark.parametrize("features, does", CALLS, ids=["certain", "uncertain"])
def test_certain_rows_come_first(
    features: frozenset[str], does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (
        Behaviour("t::t", "differs", ("int8",), (), reference.SOME),
        Behaviour("t::t", "rejects", (), (), "pad: negative"),
    )
    monkeypatch.setattr(reference, "table", lambda: {"t::t": rows})
    found = reference.matching(OperatorCall("t::t", "int8", "contiguous", features))
    assert [row.does for row in found] == [does]


def test_the_table_is_read_as_written() -> None:
    rows = [row for every in reference.table().values() for row in every]
    assert len({row.operator for row in rows}) > 200
    assert all(row.does in reference.DOES for row in rows)
