"""exporter_speed.py: torch resolves its composite operators when their list changes, not before;
graph modules compute what their graph says."""

import copy
import operator
import pickle
import types

import pytest
import torch
from torch._export import utils

from tests import exporter_speed


def test_a_new_operator_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", lambda: calls.append(1))
    exporter_speed.list_composites_once.__wrapped__()
    utils._materialize_cpp_cia_ops()
    utils._materialize_cpp_cia_ops()
    assert len(calls) == 1
    with torch.library._scoped_library("exporter_speed", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
        utils._materialize_cpp_cia_ops()
    assert len(calls) == 2


def test_code_is_of_the_graph() -> None:
    """A graph module generates its code when it is called, read, copied or pickled."""
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    assert "_code" not in module.__dict__
    assert module(torch.ones(1)) == 1 and "_code" in module.__dict__
    [relu] = module.graph.find_nodes(op="call_module", target="0")
    with module.graph.inserting_after(relu):
        negative = module.graph.call_function(operator.neg, (relu,))
    relu.replace_all_uses_with(negative, lambda user: user is not negative)
    assert module(torch.ones(1)) == 1  # until it is compiled again
    assert "neg" in module.recompile().src
    module.recompile()
    assert "_code" not in module.__dict__ and "neg" in module.code
    for one in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert one(torch.ones(1)) == -1
    assert torch.export.export(module, (torch.ones(1),)).module()(torch.ones(1)) == -1


def test_a_pattern_is_exported_once() -> None:
    """Each caller has its own copy, which it may change."""
    exports = []

    def export(pattern: torch.nn.Module, inputs: tuple[torch.Tensor, ...], is_cuda: bool) -> object:
        exports.append(pattern)
        return [pattern.forward(*inputs)]

    def pattern(function: object) -> types.SimpleNamespace:
        return types.SimpleNamespace(forward=lambda x: function(x))

    user = types.SimpleNamespace(_get_aten_graph_module_for_pattern=export)
    exporter_speed.keep_patterns.__wrapped__(user)
    inputs = (torch.ones(1),)
    for function, count in ((torch.neg, 1), (torch.neg, 1), (torch.exp, 2), (torch.neg, 2)):
        result = user._get_aten_graph_module_for_pattern(pattern(function), inputs, False)
        assert result == [function(inputs[0])] and len(exports) == count
        result.clear()
