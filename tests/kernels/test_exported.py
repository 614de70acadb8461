"""Single operators through the official flow: export, to_edge, to_executorch, ours beside eager.

One sample per row of aten. The programs are cached on disk like those of the zoo.
"""

from __future__ import annotations

import hashlib
import pickle
from importlib.metadata import version
from typing import Any

import eager
import numpy as np
import pytest
import rows
import torch
import zoo
from executorch_c import Runtime, operators

NATURAL = {"aten::bitwise_": "int64", "aten::logical_": "bool", "aten::repeat_inter": "int64",
           "aten::_fft_c": "complex64",
           "quantized_decomposed::deq": "int8", "quantized_decomposed::add": "uint8"}  # fmt: skip
# Rows that the flow does not emit for their own functional form, and why.
ELSEWHERE = {
    "aten::_local_scalar_dense": "a method that returns only a number cannot be planned",
    "aten::_native_batch_norm_legit.out": "training: its functional form has no out variant",
    "aten::_to_copy.out": "becomes _to_dim_order_copy",
    "aten::adaptive_avg_pool1d.out": "becomes _adaptive_avg_pool2d",
    "aten::arange.out": "becomes arange.start_out",
    "aten::avg_pool1d.out": "becomes avg_pool2d",
    "aten::clone.out": "becomes _clone_dim_order",
    "aten::empty.out": "no functional form of these arguments",
    "aten::fill.Scalar_out": "becomes full_like",
    "aten::fill.Tensor_out": "becomes copy",
    "aten::floor_divide.out": "becomes div with a rounding mode",
    "aten::index_put_": "becomes index_put; the memory planner brings it back for buffers",
    "aten::lift_fresh_copy.out": "becomes _clone_dim_order",
    "aten::linear.out": "becomes addmm or bmm unless preserved (tests/zoo.py, flow lower)",
    "aten::logit.out": "decomposed: log, div, where",
    "aten::masked_fill.Scalar_out": "becomes where",
    "aten::ones.out": "becomes full",
    "aten::pixel_shuffle.out": "views and permute_copy",
    "aten::pixel_unshuffle.out": "views and permute_copy",
    "aten::repeat_interleave.Tensor_out": "its output has no bound that the flow could plan",
    "aten::roll.out": "decomposed: index_select",
    "aten::rsub.Scalar_out": "becomes sub",
    "aten::select_scatter.out": "decomposed: where",
    "aten::squeeze_copy.dim_out": "becomes squeeze_copy.dims_out",
    "aten::stack.out": "becomes cat",
    "aten::sym_numel": "a method that returns only a number cannot be planned",
    "aten::sym_size.int": "sizes of static inputs are folded",
    "aten::t_copy.out": "becomes permute_copy, or alias_copy of fewer dimensions",
    "aten::transpose_copy.int_out": "becomes permute_copy",
    "aten::tril.out": "decomposed: arange, le, where",
    "aten::var.out": "becomes var.correction_out",
    "aten::zeros.out": "becomes full",
    "quantized_decomposed::add.out": "the pattern that it stands for; QuantFusionPass makes it",
}
NAMES = [row["name"] for row in operators()
         if row["name"].startswith(("aten::", "quantized_decomposed::"))
         and row["name"] in rows.tables()]  # fmt: skip


class Call(torch.nn.Module):
    """The functional form of an operator, tensors as inputs and the rest fixed."""

    def __init__(self, name: str, args: list) -> None:
        super().__init__()
        self.op, self.given = eager.functional(name), args
        if name == "aten::_to_copy.out":
            self.given = args[:1]  # the functional form has a dtype before the others

    def forward(self, *tensors: torch.Tensor) -> Any:
        left = iter(tensors)

        def filled(value: Any) -> Any:
            if isinstance(value, list):
                return [filled(v) for v in value]
            return next(left) if isinstance(value, np.ndarray) else eager.to_torch(value)

        positional, named = [], {}
        for spec, value in zip(self.op._schema.arguments, self.given, strict=False):
            if spec.kwarg_only:
                named[spec.name] = filled(value)
            else:
                positional.append(filled(value))
        return self.op(*positional, **named)


def dtype_of(name: str) -> str:
    return next((d for start, d in NATURAL.items() if name.startswith(start)), "float32")


def sample(name: str) -> list:
    """One with dimensions and elements, if there is one, in contiguous arrays if possible."""
    found = [a for a, r in rows.samples(name, dtype_of(name), 8) if r is not None]
    full = [a for a in found if all(x.size for x in rows.arrays(a))]
    full = [a for a in full if all(x.ndim for x in rows.arrays(a)[:1])] or full or found
    chosen = [a for a in full if rows.is_contiguous(a)] or full
    return chosen[1 if name == "aten::slice_copy.Tensor_out" else 0]  # the first slices nothing


def export(name: str) -> bytes:
    from executorch.exir import EdgeCompileConfig, to_edge

    args = sample(name)
    tensors = tuple(eager.to_torch(np.copy(a)) for a in rows.arrays(args))
    program = torch.export.export(Call(name, args), tensors)
    config = EdgeCompileConfig(_check_ir_validity=False)
    return bytes(to_edge(program, compile_config=config).to_executorch().buffer)


def exported(name: str) -> bytes | str:
    """The program, or why there is none; from the cache where possible."""
    text = repr((name, version("torch"), version("executorch"), sample(name)))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = zoo.cache_dir() / f"op-{name.split('::')[1]}-{key}.pickle"
    if not path.exists():
        try:
            result: bytes | str = export(name)
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        zoo._write(path, pickle.dumps(result))
    return pickle.loads(path.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_exported(name: str) -> None:
    pte = exported(name)
    if isinstance(pte, str):
        assert name in ELSEWHERE, pte
        return
    program = Runtime.get().load_program(pte)
    used = program.requirements()["operators"]
    args = sample(name)
    method = program.load_method("forward")
    found = method.execute([np.copy(a) for a in rows.arrays(args)])
    is_created = name.split("::")[1] in rows.CREATED  # without the dtype of an output here
    wanted = eager.eager(name, args) if is_created else rows.wanted(name, args, dtype_of(name))
    assert wanted
    rows.check(name, args, found, wanted * 2 if name == "aten::copy_" else wanted)  # its input, too
    assert (name in used) == (name not in ELSEWHERE), f"emitted: {sorted(used)}"
