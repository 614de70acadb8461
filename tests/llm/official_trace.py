"""Values of the official runtime, instruction by instruction, from its ETDump."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

BYTES = 64 << 20
"""Of the values of all calls."""
DTYPES = {
    "FLOAT": np.float32,
    "LONG": np.int64,
    "INT": np.int32,
    "BOOL": np.bool_,
    "BYTE": np.uint8,
    "CHAR": np.int8,
}


def _arrays(value: Any, content: bytes) -> Iterator[np.ndarray]:
    """Yield the tensors of a value; a delegate reports each of its arguments as a value."""
    for one in filter(None, [value.tensor, *(value.tensor_list or _Empty).tensors]):
        count = int(np.prod(one.sizes)) if one.sizes else 1
        dtype = DTYPES[one.scalar_type.name]
        yield np.frombuffer(content, dtype, count, one.offset).reshape(one.sizes)


class _Empty:
    tensors: tuple[Any, ...] = ()


def trace(
    program: Path, calls: list[list[int]], folder: Path
) -> list[tuple[int, str, list[np.ndarray]]]:
    """Return instruction, operator ("" of a delegate) and values of the last of some calls."""
    import executorch.kernels.quantized  # noqa: F401
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch(
        str(program), enable_etdump=True, debug_buffer_size=BYTES
    )
    at = 0
    for ids in calls:
        module.run_method("forward", (torch.tensor([ids]), torch.tensor([at])))
        at += len(ids)
    dump, values = folder / "dump.etdp", folder / "values.bin"
    module.write_etdump_result_to_file(str(dump), str(values))
    content, results = values.read_bytes(), []
    for event in deserialize_from_etdump_flatcc(dump.read_bytes()).run_data[-1].events:
        debug = event.debug_event
        if debug is not None and debug.debug_entry is not None:
            arrays = list(_arrays(debug.debug_entry, content))
            results.append((debug.instruction_id, debug.name or "", arrays))
    return results
