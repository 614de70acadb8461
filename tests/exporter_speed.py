"""Less work for the exporter in a process of thousands of exports; its results stay the same."""

from __future__ import annotations

import functools
import gc
import sys


def keep_imports() -> None:
    """Exempt the objects of imports from garbage collection, and collect less often: exporting
    makes millions of objects, and each full collection visits those of torch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@functools.cache
def list_composites_once() -> None:
    """Make torch materialise its composite operators when their list has changed only.

    `_materialize_cpp_cia_ops` resolves a name of each; every decomposition calls it once for each
    namespace of operators, which is a tenth of the time of exporting a small model.
    """
    from torch import _C
    from torch._export import utils

    materialize, seen = utils._materialize_cpp_cia_ops, None

    def materialize_new() -> None:
        nonlocal seen
        names = _C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if names != seen:
            materialize()
            seen = names

    utils._materialize_cpp_cia_ops = materialize_new


def apply() -> None:
    """Call `list_composites_once` as soon as torch.export is imported."""
    if "torch._export.utils" in sys.modules:
        list_composites_once()
