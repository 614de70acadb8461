"""The rows of operators.def against the functional schemas of torch and the runtime's operators."""

import importlib
import re
from pathlib import Path

import pytest
import torch

import executorch_c

TABLE = Path(__file__).resolve().parents[2] / "backends/interpreted/vulkan/operators.def"
ROW = r'^ECT_OP\("([^"]+)",\s*"([^"]+)",\s*(NULL|"[^"]*"),\s*(NULL|"[^"]*")\)'
ROWS = re.findall(ROW, TABLE.read_text(), re.M)
NAMES = re.findall(r'^ECT_\w+\("([^"]+)"', TABLE.read_text(), re.M)
OLD = {"sdpa_with_kv_cache.default", "update_cache.default"}
"""Names without a namespace, of old payloads."""


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    for name in (
        "executorch.backends.vulkan.custom_ops_lib",
        "executorch.extension.llm.custom_ops.custom_ops",
        "executorch.exir.passes.dim_order_ops_registry",
        "torch.ao.quantization.fx._decomposed",
        "torchao.quantization.pt2e.quantize_pt2e",
    ):
        importlib.import_module(name)


def test_rows_are_read() -> None:
    assert len(ROWS) == TABLE.read_text().count("\nECT_OP(") > 140
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] not in OLD], ids=lambda row: row[0])
def test_row_fits_both_schemas(row: tuple[str, str, str, str]) -> None:
    name, target, letters, results = (text.strip('"') for text in row)
    space, packet, overload = name.split(".")
    schema = getattr(getattr(getattr(torch.ops, space), packet), overload)._schema
    count = len(schema.arguments)
    letters = "=" * count if letters == "NULL" else letters
    items = re.findall(r"#\d|.", letters)
    consumed = [item for item in items if item[0] not in "#NTF"]
    assert len(consumed) == count, schema
    assert set(letters) <= set("=.NqdhwOI#0123456789")
    (runs,) = (op["schema"] for op in executorch_c.operators() if op["name"] == target)
    ours = torch._C.parse_schema(runs.replace("SymInt", "int").replace("ScalarType", "int"))
    outs = sum(a.kwarg_only and a.alias_info is not None for a in ours.arguments)
    passed = sum(item != "." for item in items)
    assert passed <= len(ours.arguments) - outs, runs
    for argument in ours.arguments[passed : len(ours.arguments) - outs]:
        assert argument.has_default_value() or "Optional" in str(argument.type), runs
    rows = list(results) if results != "NULL" else []
    assert len(rows) <= outs
    returns = len(schema.returns)
    assert outs == returns or (rows == ["L"] and returns == 1), (runs, schema)


def test_every_operator_of_the_partitioner_has_a_row() -> None:
    from executorch.backends.vulkan.op_registry import vulkan_supported_ops

    wanted = {getattr(op, "__name__", str(op)) for op in vulkan_supported_ops}
    # Some are keyed by their schema's name; no call is made for getitem.
    wanted = {op.replace("::", ".") + ".default" if "::" in op else op for op in wanted}
    assert wanted - set(NAMES) <= {"getitem"}
