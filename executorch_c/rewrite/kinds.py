"""Payloads whose graphs are cut and given other outputs, one row for each kind.

A writer returns a payload with other outputs. Numbers of nodes and values are those of
`Program._delegate`.
"""

from __future__ import annotations

from collections.abc import Mapping

from executorch_c.rewrite import coreml, mlx, native, tosa, vgf, vulkan, xnnpack
from executorch_c.rewrite.outputs import Writer

WRITERS: Mapping[str, Writer] = {
    "CoreMLBackend": coreml.with_outputs,
    "MLXBackend": mlx.with_outputs,
    "NativeBackend": native.with_outputs,
    "TOSABackend": tosa.with_outputs,
    "VgfBackend": vgf.with_outputs,
    "VulkanBackend": vulkan.with_outputs,
    "XnnpackBackend": xnnpack.with_outputs,
}
"""Writers by the id of the backend."""
