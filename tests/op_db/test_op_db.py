"""One sample of every function of torch's operator database: exported, run and compared.

The report of many samples in all dtypes is `python -m tests.op_db`.
"""

import re

import pytest

from tests.op_db import opdb_export, opdb_run, opdb_samples

NAMES = list(opdb_samples.entries())
# Functions whose sample is not run, with the reason: eager lacks the dtype on CPU, ...
NO_DTYPE = {
    "torch._scaled_mm_v2",
    "torch._scaled_mm",
    "torch.ops.aten._flash_attention_forward",
    "torch.ops.aten._efficient_attention_forward",
    "nn.functional.batch_norm.without_cudnn",
}
# ... or rejects the sample, or the harness has no arrays of its tensors (sparse, complex32), ...
NO_GPU = "AssertionError: Jiterator is only supported on CUDA and ROCm GPUs"
NO_ARRAYS = {
    "sparse.sampled_addmm": "RuntimeError: Sparse CSR tensors",
    "sparse.mm.reduce": "RuntimeError: Sparse CSR tensors",
    "chalf": "NotImplementedError: .* not implemented for 'ComplexHalf'",
    "to_sparse": "NotImplementedError: .* 'SparseCPU' backend",
    **{
        f"jiterator_{n}": NO_GPU
        for n in (
            "unary binary 4inputs_with_extra_args binary_return_by_ref 2inputs_2outputs"
        ).split()
    },
}
# ... or the flow does not export it. A sample that is exported by now, or no longer exported,
# fails the test.
NO_OUT = "RuntimeError: Missing out variants: "
EFFECTS = "AttributeError: 'WithEffects' object has no attribute '_schema'"
DEPENDENT = "(DataDependentOutput|DynamicOutputShape)Exception: aten."
GUARD = "GuardOnDataDependentSymNode: Could not (guard|extract)"
NOT_EXPORTED = {
    **{n: "AssertionError: graph_output_allocated not set" for n in ("item", "broadcast_shapes")},
    **{
        n: f"{NO_OUT}.*_functional"
        for n in (
            "normal.in_place native_batch_norm _native_batch_norm_legit "
            "_batch_norm_with_update nn.functional.instance_norm nn.functional.rrelu "
            "nn.functional.batch_norm"
        ).split()
    },
    **{
        f"nn.functional.linear_cross_entropy.{n}": f"{NO_OUT}.*torch_nn::_linear_cross_entropy"
        for n in ("chunked", "chunked_none")
    },
    **{
        n: DEPENDENT
        for n in (
            "allclose corrcoef cov equal nn.functional.ctc_loss linalg.lstsq "
            "linalg.lstsq.grad_oriented"
        ).split()
    },
    **{
        n: GUARD
        for n in ("tensor_split", "nn.functional.one_hot", "nn.functional.gaussian_nll_loss")
    },
    **{
        f"linalg.{n}": EFFECTS
        for n in ("cholesky", "ldl_factor", "lu_factor", "inv", "solve", "tensorinv", "tensorsolve")
    },
    "bincount": "RuntimeError: Cannot evaluate a finite upper bound",
    "combinations": "InternalError: Failed with error: mem_offset",
    "hash_tensor": "InternalError: Failed with error: torch.uint64",
}


def check_reason(kind: str, known: dict[str, str], name: str, said: str | None) -> None:
    """Assert that a sample that is not run is listed, with the listed reason."""
    if name in known:
        assert said is not None, f"{name} is {kind} by now"
        assert re.match(known[name], said, re.DOTALL), said
    else:
        assert said is None, f"{name} is no longer {kind}: {said}"


@pytest.mark.sweep(20)
@pytest.mark.parametrize("name", NAMES)
def test_function(name: str) -> None:
    entry = opdb_samples.entries()[name]
    assert (not entry.dtypes()) == (name in NO_DTYPE)
    if name in NO_DTYPE:
        pytest.skip("eager has no dtype of it on CPU")
    (record,) = opdb_export.records(entry, entry.dtypes()[0], 1)
    check_reason("taken", NO_ARRAYS, name, record.refused or record.unasked)
    if name in NO_ARRAYS:
        pytest.skip(f"not run: {record.refused or record.unasked}")
    check_reason("exported", NOT_EXPORTED, name, record.unexported)
    if name in NOT_EXPORTED:
        pytest.skip(f"not exported: {record.unexported}")
    assert record.pte
    wrong = [opdb_run.verdict(record, kernels, name) for kernels in ("ours", "reference")]
    assert wrong == [None, None]


def test_tables_name_functions() -> None:
    """Each function is listed once; the others run."""
    tables = (NO_DTYPE, NO_ARRAYS, NOT_EXPORTED)
    assert set().union(*tables) <= set(NAMES)
    assert len(set().union(*tables)) == sum(map(len, tables)) == 45


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("name", "dtype", "says"),
    [
        ("index_add", "int32", "eager rejects the program: .*dtypes match, got Int .* and Long"),
        ("masked.std", "float16", "by eager, the program gives: found dtype float32, wanted"),
        ("nn.functional.interpolate.bicubic", "uint8", "by eager, the program gives: 432 of"),
    ],
)
def test_what_no_runtime_could_mend(name: str, dtype: str, says: str) -> None:
    """The report's causes: what fails here, fails by eager's own operators, too."""
    record = opdb_export.records(opdb_samples.entries()[name], dtype, 1)[0]
    wrong = opdb_run.verdict(record, "ours", name)
    cause = opdb_run.cause(name, dtype, record)
    assert wrong and re.match(says, cause), (wrong, cause)
    if "432" in says:  # bitwise the same elements
        assert cause.endswith(wrong.removeprefix("output 0: "))


def test_spread_takes_even_distances() -> None:
    assert sorted(opdb_samples.spread(7)) == list(range(7))
    assert list(opdb_samples.spread(8))[:4] == [0, 4, 2, 6]
