"""Differences between devices and the engines here, by backend and operator namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c._types import MethodInfo

DEVICES = {
    "VulkanBackend": "a GPU adds in another order and, in float16, rounds partial sums",
    "CoreAIBackend": "the engine's Linux build; the neural engine and the GPU add in another order "
    "and, in float16, round partial sums",
    "CoreMLBackend": "the neural engine and the GPU add in another order and, in float16, round "
    "partial sums",
    "MLXBackend": "a GPU adds in another order and, in float16, rounds at other places; buffers "
    "that the model changes begin as zeros, because the flow does not store their values",
    "TOSABackend": "integers are equal on every device; floats, and the graph that a compiler "
    "makes, may differ",
    "VgfBackend": "integers are equal on every device; floats, and the graph that a compiler "
    "makes, may differ",
    "NativeBackend": "ExecuTorch's native runtime may add in another order, and shares memory of "
    "operators in place",
    "OpenvinoBackend": "in float32 unless the option 'precision' says otherwise; the official "
    "runtime uses the engine's default, bfloat16 on processors that have it",
    "XnnpackBackend": "XNNPACK adds in an order that depends on the processor, so that "
    "rounding does, too",
}
"""Backends."""

LIBRARIES = {
    "cortex_m": (
        "Cortex-M",
        "the flow's own reference; CMSIS-NN may differ by a step in softmax, div and averages",
    ),
    "cadence": (
        "Cadence",
        "the flow's own reference; a DSP's kernels rescale in their own ways "
        "and may differ by a step",
    ),
}
"""Namespaces of operators: the flow's name, and a sentence."""


INTERPRETED = "interpreted on the CPU"


def untimed(method: MethodInfo) -> Iterator[str]:
    """Yield a sentence for each backend of a method whose times here are not those of a device."""
    names = {use["id"] for use in method["delegates"] if use["engine"] == INTERPRETED}
    for name in sorted(names):
        yield f"{name} is {INTERPRETED}: its times are not those of a device"


def hints(method: MethodInfo) -> Iterator[str]:
    """Yield a line for each engine of a method: what it is, and how the device differs."""
    engines = {use["id"]: use["engine"] for use in method["delegates"] if use["engine"]}
    for name, engine in sorted(engines.items()):
        about = DEVICES.get(name)
        if about is None and engine == INTERPRETED:
            about = "the device's own arithmetic is not checked"
        yield f"{name}: {engine}; {about}" if about else f"{name}: {engine}"
    spaces = {operator["name"].partition("::")[0] for operator in method["operators"]}
    for space in sorted(spaces & LIBRARIES.keys()):
        flow, about = LIBRARIES[space]
        yield f"{flow}: operators {space}::* in portable C, equal to {about}"
