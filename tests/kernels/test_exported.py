"""Single operators through the official flow: export, to_edge, to_executorch, ours beside eager.

One sample per row of aten, and one of each dtype and of another layout as methods of one program.
The programs are cached on disk like those of the zoo.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import eager
import numpy as np
import pytest
import rows
import torch
import zoo
from executorch_c import Runtime, operators

NATURAL = {"aten::bitwise_": "int64", "aten::__": "int64", "aten::bincount": "int64",
           "aten::logical_": "bool", "aten::repeat_inter": "int64",
           "aten::_fft_c": "complex64", "aten::gcd": "int64", "aten::lcm": "int64",
           "aten::tril_ind": "int64", "aten::triu_ind": "int64",
           "aten::_conj_copy": "complex64", "aten::view_as_real": "complex64",
           "quantized_decomposed::deq": "int8", "quantized_decomposed::add": "uint8"}  # fmt: skip
SWEPT = ("float32", "bfloat16", "int64", "bool", "complex64")
# Rows that the flow does not emit for their own functional form, and why.
ELSEWHERE = {
    "aten::_local_scalar_dense": "a method that returns only a number cannot be planned",
    "aten::_native_batch_norm_legit.out": "training: its functional form has no out variant",
    "aten::_to_copy.out": "becomes _to_dim_order_copy",
    "aten::adaptive_avg_pool1d.out": "becomes _adaptive_avg_pool2d",
    "aten::arange.out": "becomes arange.start_out",
    "aten::avg_pool1d.out": "becomes avg_pool2d",
    "aten::bernoulli.float_out": "its functional form has no out variant that the flow finds",
    "aten::bernoulli.out": "decomposed: rand, lt",
    "aten::bincount.out": "its output has no bound that the flow could plan",
    "aten::clone.out": "becomes _clone_dim_order",
    "aten::col2im.out": "decomposed: arange, index_put",
    "aten::embedding_dense_backward.out": "decomposed: index_put",
    "aten::empty.out": "no functional form of these arguments",
    "aten::fill.Scalar_out": "becomes full_like",
    "aten::fill.Tensor_out": "becomes copy",
    "aten::floor_divide.out": "becomes div with a rounding mode",
    "aten::glu.out": "decomposed: slice_copy, sigmoid, mul",
    "aten::im2col.out": "decomposed: arange, index",
    "aten::index_put_": "becomes index_put; the memory planner brings it back for buffers",
    "aten::lift_fresh_copy.out": "becomes _clone_dim_order",
    "aten::linear.out": "becomes addmm or bmm unless preserved (tests/zoo.py, flow lower)",
    "aten::logit.out": "decomposed: log, div, where",
    "aten::masked_fill.Scalar_out": "becomes where",
    "aten::native_group_norm_backward.out": "decomposed: mul, sum",
    "aten::native_layer_norm_backward.out": "decomposed: mul, sum",
    "aten::ones.out": "becomes full",
    "aten::pixel_shuffle.out": "views and permute_copy",
    "aten::pixel_unshuffle.out": "views and permute_copy",
    **{f"aten::reflection_pad{n}d.out": "decomposed: arange, abs, index" for n in (1, 2, 3)},
    "aten::repeat_interleave.Tensor_out": "its output has no bound that the flow could plan",
    **{f"aten::replication_pad{n}d.out": "decomposed: arange, clamp, index" for n in (1, 2, 3)},
    "aten::roll.out": "decomposed: index_select",
    "aten::rsub.Scalar_out": "becomes sub",
    "aten::select_scatter.out": "decomposed: where",
    "aten::squeeze_copy.dim_out": "becomes squeeze_copy.dims_out",
    "aten::stack.out": "becomes cat",
    "aten::resize_": "becomes as_strided_copy, or clone of the same sizes",
    **{f"aten::{n}": "a method that returns only a number cannot be planned"
       for n in ("sym_is_contiguous", "sym_storage_offset", "sym_stride.int")},
    "aten::sym_numel": "a method that returns only a number cannot be planned",
    "aten::sym_size.int": "sizes of static inputs are folded",
    "aten::t_copy.out": "becomes permute_copy, or alias_copy of fewer dimensions",
    "aten::transpose_copy.int_out": "becomes permute_copy",
    "aten::tril.out": "decomposed: arange, le, where",
    "aten::unfold_backward.out": "decomposed: unfold_copy, index_put",
    **{f"aten::{n}.out": "decomposed: arange, mul, clamp, index"
       for n in ("upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d")},
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


def samples(name: str, dtype: str, contiguous: bool = True) -> list[list]:
    """Those with dimensions and elements, if there are some, in contiguous arrays or in others."""
    found = [a for a, r in rows.samples(name, dtype, 8) if r is not None]
    full = [a for a in found if all(x.size for x in rows.arrays(a))]
    full = [a for a in full if all(x.ndim for x in rows.arrays(a)[:1])] or full or found
    return [a for a in full if rows.is_contiguous(a) == contiguous]


def sample(name: str) -> list:
    """One of the natural dtype."""
    dtype = dtype_of(name)
    chosen = samples(name, dtype) or samples(name, dtype, False)
    return chosen[1 if name == "aten::slice_copy.Tensor_out" else 0]  # the first slices nothing


def variants(name: str) -> dict[str, tuple[str, list]]:
    """Method name -> dtype and sample: the other dtypes, and another layout."""
    found = {d: (d, samples(name, d)[:1]) for d in SWEPT if d != dtype_of(name)}
    found["layout"] = (dtype_of(name), samples(name, dtype_of(name), False)[:1])
    return {method: (d, chosen[0]) for method, (d, chosen) in found.items() if chosen}


def trace(name: str, args: list) -> Any:
    tensors = tuple(eager.to_torch(np.copy(a, "K")) for a in rows.arrays(args))
    return torch.export.export(Call(name, args), tensors)


def lower(traced: dict[str, Any]) -> bytes:
    from executorch.exir import EdgeCompileConfig, to_edge

    config = EdgeCompileConfig(_check_ir_validity=False)
    return bytes(to_edge(traced, compile_config=config).to_executorch().buffer)


def export(name: str) -> bytes:
    return lower({"forward": trace(name, sample(name))})


def export_variants(name: str) -> list[bytes]:
    """One program, or one for each variant that the flow takes."""
    traced = {}
    for method, (_, args) in variants(name).items():
        try:
            traced[method] = trace(name, args)
        except Exception:  # dtypes that export refuses, though eager takes them
            continue
    try:
        return [lower(traced)] if traced else []
    except Exception:
        return [pte for pte in map(lower_one, traced.items()) if pte]


def lower_one(item: tuple[str, Any]) -> bytes | None:
    try:
        return lower(dict([item]))
    except Exception:
        return None


def cached(name: str, make: Callable[[str], Any], given: Any) -> Any:
    """What `make` gave for the name, or its error as text; from the cache where possible."""
    text = repr((make.__name__, name, version("torch"), version("executorch"), given))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = zoo.cache_dir() / f"op-{name.split('::')[1]}-{key}.pickle"
    if not path.exists():
        try:
            result = make(name)
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        zoo._write(path, pickle.dumps(result))
    return pickle.loads(path.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_exported(name: str) -> None:
    pte = cached(name, export, sample(name))
    if isinstance(pte, str):
        assert name in ELSEWHERE, pte
        return
    program = Runtime.get().load_program(pte)
    used = program.requirements()["operators"]
    args = sample(name)
    method = program.load_method("forward")
    results = method.execute([np.copy(a) for a in rows.arrays(args)])
    found = [np.zeros(0, np.uint8) if r is None else r for r in results]  # as in eager.py
    is_created = makes_dtype(name)  # without the dtype of an output here
    wanted = eager.eager(name, args) if is_created else rows.wanted(name, args, dtype_of(name))
    assert wanted
    rows.check(name, args, found, wanted * 2 if name == "aten::copy_" else wanted)  # its input, too
    assert (name in used) == (name not in ELSEWHERE), f"emitted: {sorted(used)}"


def makes_dtype(name: str) -> bool:
    """Whether the dtype of the result is an argument of the functional form only."""
    return name.split("::")[1] in (*rows.CREATED, *rows.RANDOM_OUTS)


def comparable(name: str, found: list[Any], wanted: list[Any]) -> tuple[list[Any], list[Any]]:
    """Without what a mask leaves out, and without the bags' outputs for the gradient, whose sizes
    the exporter plans otherwise than eager gives them."""
    if name.startswith("aten::_embedding_bag"):
        return found[:1], wanted[:1]
    assert len(found) == len(wanted)
    kept = [i for i, value in enumerate(found) if value is not None]
    return [found[i] for i in kept], [wanted[i] for i in kept]


# Rows that have float32 outputs in programs, and in eager the scales' dtype.
FLOAT32_ONLY = tuple(f"quantized_decomposed::embedding_{n}bit.out" for n in (2, 4))


def is_swept(name: str) -> bool:
    """Rows that the flow takes apart are tested where the parts are; halves round between them."""
    return not makes_dtype(name) and name not in (*ELSEWHERE, *FLOAT32_ONLY)


@pytest.mark.parametrize("name", [name for name in NAMES if is_swept(name)])
def test_dtypes_and_layouts(name: str) -> None:
    given = variants(name)
    for pte in cached(name, export_variants, given):
        program = Runtime.get().load_program(pte)
        for method in program.method_names:
            dtype, args = given[method]
            wanted = rows.wanted(name, args, dtype)
            assert wanted
            found = program.load_method(method).execute([np.copy(a) for a in rows.arrays(args)])
            rows.check(name, args, *comparable(name, found, wanted * (1 + (name == "aten::copy_"))))
