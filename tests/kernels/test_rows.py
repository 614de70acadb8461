"""Every row of ops.def through whole programs: the Python layer compared with eager, by dtype."""

import importlib

import pytest
import torch

from executorch_c import Runtime, operators
from tests.kernels import rows

SCHEMAS = {row["name"]: row["schema"] for row in operators() if row["origin"] == "builtin"}
TORCH_HAS_NO = ("executorch_prim::", "dim_order_ops::", "et_copy::")  # or others of that name
NAMES = sorted(set(SCHEMAS) & set(rows.tables()))


@pytest.mark.parametrize("name", [n for n in SCHEMAS if not n.startswith(TORCH_HAS_NO)])
def test_schema_is_torchs(name: str) -> None:
    space, _, full = name.partition("::")
    packet, _, overload = full.partition(".")
    if space == "quantized_decomposed":
        importlib.import_module("tests.kernels.quantized_forms")
    if space == "kvcache":
        importlib.import_module("tests.llm.kv_cache_out")
    if space in ("llama", "preprocess"):
        importlib.import_module("executorch.extension.llm.custom_ops.custom_ops")
    op = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
    assert SCHEMAS[name] == str(op._schema)


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str) -> None:
    """Fast and plain loops give eager's results; test_samples.py has rejections."""
    ops, cases = rows.program([name])
    assert cases
    program = Runtime.get().load_program(ops.build())
    for case in cases:
        for kernels in ("default", "reference"):
            method = program.load_method(case.method, kernels=kernels)
            rows.check(name, case.args, method.execute(rows.inputs_of(ops, case)), case.results)
