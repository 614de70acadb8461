"""exporter_speed.py: torch resolves its composite operators when their list changes, not before."""

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
