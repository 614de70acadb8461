"""The official runtime on programs of single operators, compared with ours and eager.

Ours always agrees with eager. The official runtime does what `inspect/reference.tsv` says of the
call; csrc/kernels/README.md explains its differences.
"""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from executorch_c.inspect import reference
from tests.kernels import rows
from tests.kernels.eager import COMPLEX, WIDE_UNSIGNED
from tests.kernels.official_worker import Official
from tests.kernels.reference_table import PLANNED_BY_EXPORTER, described, runs

FAMILIES = sorted({family for family, _ in rows.tables().values()})
DTYPES = ["float32", "int64"]
BYTES = ["int8", "uint8"]  # dtypes of quantized tensors
OTHERWISE = {
    **{
        f"llama::{name}.out": "without elements, it ends the process in most calls only"
        for name in ("custom_quantized_sdpa", "custom_sdpa", "sdpa_with_kv_cache", "update_cache")
    },
    **{
        f"quantized_decomposed::{name}": "parameters of other dtypes end the process"
        for name in (
            *("choose_qparams.Tensor_out", "choose_qparams_per_token_asymmetric.out"),
            *("dequantize_per_channel.out", "dequantize_per_tensor.Tensor_out"),
            *("dequantize_per_tensor.out", "quantize_per_token.out"),
        )
    },
    "aten::_native_batch_norm_legit.out": "it rejects training only",
    "aten::div.Scalar_mode_out": "multiplies by the reciprocal: one ulp",
    "aten::bmm.out": "inner dimension 0: unwritten memory, right by chance",
    "aten::index_put_": "values that broadcast: it rejects some, and some end the process",
    "aten::max_pool2d_with_indices_backward.grad_input": "no elements: nothing to add to",
    "aten::mm.out": "inner dimension 0: unwritten memory, right by chance",
    "aten::sym_size.int": "negative dims only end the process",
}
"""Operators with samples of which the table's conditions are not true."""
BY_CHANCE = {"aten::bmm.out", "aten::mm.out"}


@pytest.fixture(scope="module")
def official_run() -> Iterator[Official]:
    pytest.importorskip("executorch.runtime")
    run = Official()
    yield run
    run.close()


def is_common(case: rows.MethodCase) -> bool:
    """Return False for dtypes that only some official kernels support."""
    dtypes = {a.dtype.name for a in rows.arrays(case.args)}
    return not dtypes & {*WIDE_UNSIGNED, *COMPLEX} and case.operator not in PLANNED_BY_EXPORTER


@pytest.mark.sweep(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, official_run: Official) -> None:
    names = sorted(name for name, (f, _) in rows.tables().items() if f == family)
    dtypes = [*DTYPES, *BYTES] if family == "quantized" else DTYPES
    ops, cases = rows.program(names, dtypes, 8, contiguous=True)
    cases = [case for case in cases if is_common(case)]
    wrong: dict[str, list[str]] = defaultdict(list)
    for case, own, call, what, _ in runs(ops, cases, official_run):
        assert not own
        known = reference.matching(call)
        if what in ("agrees", "rounds"):
            is_known = not any(row.is_certain for row in known)
            every = {row.does for row in reference.table()[case.operator]}
            is_known &= what == "agrees" or bool(every & {"rounds", "differs"})
        else:
            is_known = what in {row.does for row in known}
        if not is_known:
            wrong[case.operator].append(f"{what}: {described(case)}")
    unknown = {name: calls for name, calls in wrong.items() if name not in OTHERWISE}
    assert not unknown
    assert set(OTHERWISE) & set(names) - BY_CHANCE <= set(wrong)
