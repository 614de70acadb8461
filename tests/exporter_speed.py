"""Less work for the exporter in a process of thousands of exports; its results stay the same."""

import copy
import functools
import gc
import sys
import weakref
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


@functools.cache
def share_sources() -> None:
    """Make nodes share the records of the nodes that they were made from, which nothing changes:
    each pass copies the whole history of each node, a tenth of the time."""
    from torch.fx.traceback import NodeSource

    NodeSource.__deepcopy__ = lambda self, memo: self


class OnUse:
    """An attribute of graph modules that only generated code has: it generates the code."""

    def __init__(self, name: str, generate: Any, module: Any = None) -> None:
        self.name, self.generate = name, generate
        self.module = weakref.ref(module) if module is not None else lambda: None

    def __get__(self, instance: Any, owner: type) -> Any:
        module = instance if instance is not None else self.module()
        if module is None:
            return self
        self.generate(module)
        return getattr(owner if instance is None else instance, self.name)


@functools.cache
def generate_code_on_use() -> None:
    """Make graph modules generate and compile their code when it is used: passes make thousands,
    and interpret their graphs; an eighth of the time."""
    from torch.fx import GraphModule
    from torch.fx.graph import _PyTreeCodeGen

    generate, attributes = GraphModule.recompile, ("_code", "_lineno_map", "_prologue_start")

    class Code:
        """The result of `recompile`: the code, generated on use."""

        def __init__(self, module: Any) -> None:
            self.module = module

        def __getattr__(self, name: str) -> Any:
            return getattr(generate(self.module), name)

    def recompile(self: Any) -> Any:
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            self._in_spec = self._graph._codegen.pytree_info.in_spec
            self._out_spec = self._graph._codegen.pytree_info.out_spec
        for name in attributes:
            self.__dict__.pop(name, None)
        type(self).forward = OnUse("forward", generate, self)
        self._recompile_submodules()
        return Code(self)

    for name in attributes:
        setattr(GraphModule, name, OnUse(name, generate))
    GraphModule.recompile = recompile


@functools.cache
def keep_patterns(user: Any) -> None:
    """Make a module with a quantizer export its patterns once: XNNPACK's exports 12 for each
    model, half of the time of quantising a small one."""
    export, kept = user._get_aten_graph_module_for_pattern, dict[Any, Any]()

    def exported(pattern: Any, inputs: Any, is_cuda: bool = False, **kwargs: Any) -> Any:
        function = pattern.forward
        variables = [cell.cell_contents for cell in function.__closure__ or ()]
        shapes = [(x.shape, x.dtype) for x in inputs]
        key = (function.__code__, *variables, *shapes, is_cuda, *sorted(kwargs.items()))
        if key not in kept:
            kept[key] = export(pattern, inputs, is_cuda, **kwargs)
        return copy.deepcopy(kept[key])

    user._get_aten_graph_module_for_pattern = exported


QUANTIZER = "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils"


def apply() -> None:
    """Call the functions that change torch as soon as torch.export is imported."""
    if "torch._export.utils" in sys.modules:
        list_composites_once()
        register_faster()
        share_sources()
        generate_code_on_use()
    if QUANTIZER in sys.modules:
        keep_patterns(sys.modules[QUANTIZER])
