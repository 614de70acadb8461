"""The official runtime on programs of single operators, compared with ours and eager.

Ours always agrees with eager. DIFFERS lists the operators of the official runtime that do not;
csrc/kernels/README.md explains them.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.kernels import official_worker
import pytest
from tests.kernels import rows
from tests.kernels.eager import COMPLEX, WIDE_UNSIGNED
from executorch_c import Runtime

FAMILIES = sorted({family for family, _ in rows.tables().values()})
DTYPES = ["float32", "int64"]
BYTES = ["int8", "uint8"]  # dtypes of quantized tensors
# Of quantized_decomposed.
QUANTIZED_DIFFERS = {
    "choose_qparams.Tensor_out": "computes in float64, scales at least a constant eps, overflow",
    "choose_qparams_per_token_asymmetric.out": "computes scales in another order: one ulp",
    "dequantize_per_channel.out": "differences of integers do not wrap",
    "dequantize_per_tensor.out": "float64 outputs are computed in float32",
    "dequantize_per_token.out": "a 0-d zero point promotes the input's dtype",
    "mixed_linear.out": "sums for a float16 output round to float16 at each step",
    "quantize_per_tensor.Tensor_out": "infinity and NaN",
    "quantize_per_tensor.out": "infinity and NaN",
    "quantize_per_token.out": "rounds before it adds the zero point: other ties",
}
QUANTIZED_REFUSES = {
    **{
        f"embedding_{bits}.{form}": "outputs of another dtype than the scales, int32 indices"
        for bits in ("byte", "4bit", "2bit")
        for form in ("out", "dtype_out")
    },
    "add.out": "inputs that broadcast, unused ranges outside the dtype's",
    "choose_qparams.Tensor_out": "int32",
    "choose_qparams_per_token_asymmetric.out": "infinity, NaN, 0-d tensors",
    "dequantize_per_channel.out": "most dtypes of zero points and outputs (uint8 among them)",
    "dequantize_per_tensor.Tensor_out": "float32 scales, zero points other than int64",
    "dequantize_per_tensor.out": "empty unused ranges, empty tensors",
    "dequantize_per_token.out": "inputs other than int8, parameters other than float32 and int64",
    "mixed_linear.out": "zero points; without columns the process ends (SIGFPE)",
    "mixed_mm.out": "zero points",
    "quantize_per_channel.out": "parameters other than float64 and int64",
    "quantize_per_tensor.Tensor_out": "parameters other than float64 and int64",
    "quantize_per_token.out": "parameters other than float64 and int64",
}
# Operator -> the difference between the official runtime's and eager's result.
DIFFERS = {
    **{
        f"aten::bitwise_{n}_shift.{form}_out": "negative counts, counts of at least the bit width"
        for n in ("left", "right")
        for form in ("Tensor", "Tensor_Scalar")
    },
    "aten::bmm.out": "inner dimension 0: leaves the output unchanged",
    **{
        f"aten::div.{n}_out": "multiplies by the reciprocal: one ulp"
        for n in ("Scalar", "Scalar_mode")
    },
    "aten::grid_sampler_2d.out": "non-finite positions with padding: another border",
    "aten::max_pool2d_with_indices_backward.grad_input": "adds to what its output contains",
    "aten::mm.out": "inner dimension 0: leaves the output unchanged",
    "aten::native_dropout.out": "kept elements are not scaled by 1 / (1 - p)",
    "aten::pow.Scalar_out": "0 to a negative power, integers: INT64_MIN, eager 0",
    "aten::pow.Tensor_Tensor_out": "0 to a negative power, integers: INT64_MIN, eager 0",
    "aten::remainder.Scalar_out": "integers: the sign of the dividend, eager that of the divisor",
    "aten::remainder.Tensor_out": "integers: the sign of the dividend, eager that of the divisor",
    "aten::var_mean.correction_out": "one element: the mean is NaN",
    **{f"quantized_decomposed::{n}": why for n, why in QUANTIZED_DIFFERS.items()},
    **{
        f"executorch_prim::{n}.Scalar": "beyond int64: INT64_MIN, here the nearest int64"
        for n in ("ceil", "round", "sym_int", "trunc")
    },
    "executorch_prim::floordiv.Scalar": "0.0 by 0.0: infinity, here NaN (Python raises)",
    "executorch_prim::floordiv.int": "operands of opposite sign: rounds towards 0, Python down",
    **{
        f"executorch_prim::mod.{n}": "operands of opposite sign: rounds towards 0, Python down"
        for n in ("Scalar", "int")
    },
}
# Unwritten memory may contain the right number by chance.
BY_CHANCE = {"aten::bmm.out", "aten::mm.out"}
# Operator -> samples that it rejects, or that end the process, although eager computes them.
REFUSES = {
    "aten::_conj_physical.out": "real tensors",
    "aten::_fft_r2c.out": "spectra of both sides",
    "aten::_log_softmax.out": "rows without elements end the process (SIGFPE)",
    "aten::_native_batch_norm_legit.out": "training",
    "aten::add.Scalar_out": "an integer tensor and a fractional number",
    "aten::arange.out": "a fractional end for an integer output",
    "aten::arange.start_out": "a bool as end",
    "aten::constant_pad_nd.out": "negative padding",
    "aten::convolution_backward.out": "int64",
    "aten::copy.out": "non_blocking",
    "aten::copy_": "non_blocking",
    "aten::cumsum.out": "0-d tensors",
    "aten::gather.out": "int32 indices",
    "aten::index_put_": "values that broadcast",
    "aten::native_dropout.out": "empty tensors, an unused p",
    "aten::roll.out": "no dims (the flattened tensor)",
    "aten::scatter.value_out": "int32 indices",
    "aten::sym_size.int": "negative dims end the process",
    "aten::unfold_copy.out": "0-d tensors end the process",
    **{f"quantized_decomposed::{n}": why for n, why in QUANTIZED_REFUSES.items()},
    "et_copy::_d2h_copy.out": "tensors on one device",
    "et_copy::_h2d_copy.out": "tensors on one device",
    **{
        f"executorch_prim::{n}.Scalar": "bools"
        for n in ("add", "eq", "floordiv", "ge", "gt", "le", "lt", "mul", "neg", "sub", "truediv")
    },
    **{f"executorch_prim::{n}.Scalar": "integers" for n in ("ceil", "round", "trunc")},
    **{
        f"llama::{n}.out": "empty tensors"
        for n in (
            "custom_quantized_sdpa",
            "custom_sdpa",
            "sdpa_with_kv_cache",
            "update_cache",
            "update_cache_with_indices",
        )
    },
    "executorch_prim::mod.Scalar": "all types but integers",
    "executorch_prim::sym_ite.Scalar": "integers as conditions",
    "executorch_prim::sym_max.Scalar": "all types but integers",
    "executorch_prim::sym_min.Scalar": "all types but integers",
    "executorch_prim::sym_not.Scalar": "all types but bools",
}
MISSING = "error: 0x:14"
# Its output gets memory from the exporter's plan, which these programs lack.
PLANNED_BY_EXPORTER = {"executorch_prim::et_view.default"}
Run = Callable[[bytes, list[tuple[str, list[Any]]]], list[official_worker.Answer]]


@pytest.fixture(scope="module")
def official_run() -> Iterator[Run]:
    pytest.importorskip("executorch.runtime")
    worker = subprocess.Popen(
        [sys.executable, str(Path(official_worker.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert worker.stdin and worker.stdout

    def run(pte: bytes, calls: list[tuple[str, list[Any]]]) -> list[official_worker.Answer]:
        pickle.dump((pte, calls), worker.stdin)
        worker.stdin.flush()
        return pickle.load(worker.stdout)

    yield run
    worker.stdin.close()
    worker.wait(60)


def is_common(case: rows.MethodCase) -> bool:
    """Return False for dtypes that only some official kernels support."""
    dtypes = {a.dtype.name for a in rows.arrays(case.args)}
    return not dtypes & {*WIDE_UNSIGNED, *COMPLEX} and case.operator not in PLANNED_BY_EXPORTER


def report(differs: dict[str, list], refuses: dict[str, list]) -> None:
    for title, table in (("differs", differs), ("refuses or dies", refuses)):
        for name, what in table.items():
            print(f"{title}: {name}, {len(what)} samples, first: {str(what[0])[:600]}")


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, official_run: Run) -> None:
    names = sorted(name for name, (f, _) in rows.tables().items() if f == family)
    ops, cases = rows.program(
        names, [*DTYPES, *BYTES] if family == "quantized" else DTYPES, 8, contiguous=True
    )
    cases = [case for case in cases if is_common(case)]
    pte = ops.build()
    inputs = [
        [np.copy(v, "K") if isinstance(v, np.ndarray) else v for v in ops.inputs[c.method]]
        for c in cases
    ]
    answers = official_run(pte, [(c.method, v) for c, v in zip(cases, inputs, strict=True)])
    program = Runtime.get().load_program(pte)
    differs, refuses = defaultdict(list), defaultdict(list)
    for case, given, (how, outputs) in zip(cases, inputs, answers, strict=True):
        ours = program.load_method(case.method).execute(given)
        rows.check(case.operator, case.args, ours, case.results or [])
        if how == "refused" and outputs.endswith(MISSING):
            continue  # it lacks this operator
        if how != "ran":
            refuses[case.operator].append((how, outputs, case.args))
        elif not rows.agrees(case, outputs):
            differs[case.operator].append((case.args, outputs, case.results))
    report(differs, refuses)
    known = set(DIFFERS) & set(names)
    assert known - BY_CHANCE <= set(differs) <= known
    assert set(refuses) == set(REFUSES) & set(names)
