"""Programs of MLX with a graph of the caller's, in the terms of the schema."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from executorch.exir import schema as pte

from tests.backends.payloads import BACKENDS, Format, Graph, schema
from tests.dtypes import dtype_id
from tests.plans import Plan, build

UNION = re.findall(r"^EMX_NODE\((\w+)\)", (BACKENDS / "mlx" / "union.def").read_text(), re.M)
MLX = Format(
    Path(__file__).parent / "mlx_programs",
    {**schema("mlx", {"OpNode": [*UNION, "New", "Newer"]}), "New": {"x": "4"}, "Newer": {"x": "4"}},
    "MLXGraph",
    None,
    b"MLX0",
)


def integer(number: int) -> Graph:
    return {"literal": number}


def computed(value: int) -> Graph:
    """Return an IntOrVid that is value `value`."""
    return {"vid": value, "is_vid": 1}


def integers(*numbers: int) -> list[Graph]:
    return [integer(number) for number in numbers]


def real(number: float) -> Graph:
    return {"literal": float(number)}


def meta(array: np.ndarray) -> Graph:
    shape = [{"value": size} for size in array.shape]
    return {"shape": shape, "scalar_type": dtype_id(array.dtype.name)}


Node = tuple[str, Graph]


def graph(
    chains: Sequence[Sequence[Node]],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    temporaries: int = 0,
    values: int = 0,
    buffers: Sequence[np.ndarray] = (),
) -> Graph:
    """Return an MLXGraph whose first chain is the main one; tensors are inputs, outputs, buffers,
    temporaries."""
    first = len(inputs)
    return {
        "version": "1",
        "num_input_tensors": len(inputs),
        "num_output_tensors": len(outputs),
        "num_mutable_buffer_tensors": len(buffers),
        "num_temp_tensors": temporaries,
        "num_values": values,
        "instruction_chains": [
            {"instructions": [{"op": [name, fields]} for name, fields in chain]} for chain in chains
        ],
        "init_chain_idx": -1,
        "input_map": [{"idx": i} for i in range(first)],
        "output_map": [{"idx": first + i} for i in range(len(outputs))],
        "tensor_meta": [meta(array) for array in (*inputs, *outputs, *buffers)],
    }


def program(
    content: Graph,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    is_inline: bool = False,
) -> bytes:
    """Return a program that is one delegate."""
    plan = Plan()
    delegate = plan.delegate("MLXBackend", 0)
    args = [plan.input(array.shape, array.dtype.name) for array in inputs]
    args += [plan.output(array.shape, array.dtype.name) for array in outputs]
    plan.append(pte.DelegateCall(delegate, args))
    return build(plan, payloads=[MLX.write(content)], extract_delegate_segments=not is_inline)
