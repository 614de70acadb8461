"""Less work for the exporter in a process of thousands of exports; its results stay the same."""

import functools
import gc
import sys
from typing import Any


def keep_imports() -> None:
    """Exempt the objects of imports from garbage collection, and collect less often: exporting
    makes millions of objects, and each full collection visits those of torch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@functools.cache
def list_composites_once() -> None:
    """Make torch list its composite operators when operators have changed only.

    `_collect_all_valid_cia_ops` visits every operator, and resolves the names of the composite ones
    for each namespace; every export calls it several times, a fifth of the time for a small model.
    """
    from torch import _C, ops
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    materialize, collect = utils._materialize_cpp_cia_ops, utils._collect_all_valid_cia_ops
    seen, key, composites = None, None, set()

    def materialize_new() -> None:
        nonlocal seen
        names = _C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if names != seen:
            materialize()
            seen = names

    def collect_new() -> set[Any]:
        nonlocal key, composites
        names = _C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if key != (names, *ops._dir):
            composites = collect()
            key = (names, *ops._dir)
        return composites

    utils._materialize_cpp_cia_ops = materialize_new
    for module in (utils, exported_program, decomp_utils):
        module._collect_all_valid_cia_ops = collect_new


@functools.cache
def register_faster() -> None:
    """Make torch register Python kernels of operators without evaluating annotations of a nested
    function: every decomposition registers 12,000, a tenth of the time of exporting a small
    model."""
    from torch import _C, _ops

    slower = _ops.OperatorBase.py_impl

    def py_impl(self: Any, k: Any) -> Any:
        if not isinstance(k, _C.DispatchKey) or k == _C.DispatchKey.Python or k in self.py_kernels:
            return slower(self, k)

        def inner(fn):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            self.py_kernels[k] = fn
            self._dispatch_cache.clear()
            return fn

        return inner

    _ops.OperatorBase.py_impl = py_impl


def apply() -> None:
    """Call the functions that change torch as soon as torch.export is imported."""
    if "torch._export.utils" in sys.modules:
        list_composites_once()
        register_faster()
