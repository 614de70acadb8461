"""What is open in the payloads of backends without an engine here: their format, version, sizes.

Each function reads the header that the backend's own runtime reads, of untrusted bytes, and yields
names and texts. A payload that does not have that header yields none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from executorch_c._coreai import payload as _coreai
from executorch_c._render import text as _text

Facts = Iterator[tuple[str, str]]

MAX_FACTS = 32
"""Maximum number of facts of one payload."""
MAX_TEXT = 120
"""Maximum number of characters of a text from a payload."""
MAX_SPEC_BYTES = 40
"""Maximum number of bytes of a compile spec in text."""
MAX_INDEX_BYTES = 1 << 20
"""Maximum number of bytes of the index of a Core ML payload."""


def facts(
    backend: str, payload: bytes, lookup: Callable[[str], bytes | None] = lambda key: None
) -> list[tuple[str, str]]:
    """Return what a payload shows, as names and texts; empty for an unknown backend or format.

    `lookup` returns the program's named data of a key, or None.
    """
    if backend not in READERS:
        return []
    reader = READERS[backend]
    arguments = (payload, lookup) if reader.takes_lookup else (payload,)
    rows = []
    try:
        for name, text in reader.read(*arguments):
            rows.append((name, text[:MAX_TEXT]))
            if len(rows) == MAX_FACTS:
                break
    except (struct.error, AttributeError, IndexError, RecursionError, TypeError, ValueError):
        rows.append(("damaged", "the payload ends early, or is not in its format"))
    return rows


def is_text(value: bytes) -> bool:
    return value.isascii() and value.decode("ascii", "replace").isprintable()


def spec_text(value: bytes) -> str:
    """Return a compile spec as text, or as hexadecimal digits, with its size."""
    text = value.decode() if is_text(value) else value.hex()
    cut = text if len(text) <= MAX_SPEC_BYTES else text[:MAX_SPEC_BYTES] + "..."
    return f"{cut!r} ({_text.plural(len(value), 'byte')})"


def count(number: int) -> str:
    return f"{number:,} bytes"


def flatbuffer(name: str, magic: bytes) -> Callable[[bytes], Facts]:
    """Return a reader of payloads with the identifier of a FlatBuffer."""

    def read(payload: bytes) -> Facts:
        if payload[4:8] == magic:
            yield "format", f"{name} (FlatBuffer '{magic.decode()}')"

    return read


def core_ml(payload: bytes) -> Facts:
    """A directory of files, with an index in JSON that is written backwards from the end."""
    text = payload[: -MAX_INDEX_BYTES - 1 : -1]
    if text[:1] != b"{":
        return
    index, _ = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))
    yield "format", "directory of a Core ML package (ML Program)"
    for node in index.get("nodes", []):
        region = node.get("dataRegion") if isinstance(node, dict) else None
        if isinstance(region, dict) and node.get("kind") == 0:
            yield f"file {node.get('name')}", count(int(region.get("size", 0)))


def vela(payload: bytes) -> Facts:
    """Blocks of a name, a length and data in units of 16 bytes."""
    at = 0
    if payload[:16] != b"vela_bin_stream\0":
        return
    yield "format", "Vela binary stream"
    while at + 32 <= len(payload):
        name = payload[at : at + 16].rstrip(b"\0").decode("ascii", "replace")
        (length,) = struct.unpack_from("<I", payload, at + 16)
        data = payload[at + 32 : at + 32 + length]
        if name == "vela_end_stream":
            return
        if name == "scratch_size":
            yield name, count(*struct.unpack_from("<I", data))
        elif name in ("inputs", "outputs"):
            yield name, vela_tensors(data)
        elif length:
            yield name, count(length)
        at += 32 + (length + 15) // 16 * 16


def vela_tensors(data: bytes) -> str:
    """Return shapes and bytes of elements: rows of six sizes, bytes, offset and region."""
    (number,) = struct.unpack_from("<i", data)
    rows = [struct.unpack_from("<9i", data, 4 + 36 * i) for i in range(min(max(number, 0), 8))]
    shown = [f"{list(row[:6])} of {row[6]} bytes" for row in rows]
    return f"{number}: " + ", ".join(shown)


def mlx(payload: bytes) -> Facts:
    if payload[4:8] == b"MLX0":
        offset, size = struct.unpack_from("<QQ", payload, 8)
        yield "format", "MLX graph (FlatBuffer after a header 'MLX0')"
        yield "data", f"{count(size)} at {offset:,}"


def mps(payload: bytes) -> Facts:
    if payload[4:8] == b"MP00":
        offset, size = struct.unpack_from("<QQ", payload, 8)
        yield "format", "MPS graph (FlatBuffer after a header 'MP00')"
        yield "constants", f"{count(size)} at {offset:,}"


def inductor(payload: bytes) -> Facts:
    """Two keys of named data: a shared library, and weights."""
    keys = payload[:1024].decode("ascii").split("\n")
    if len(keys) >= 2 and keys[0].endswith("_so_blob"):
        yield "format", "keys of named data: code compiled by AOTInductor, and its weights"
        yield from (("named data", key) for key in keys if key)


def neuropilot(payload: bytes) -> Facts:
    version, inputs, outputs, size = struct.unpack_from("<BIII", payload)
    if size <= len(payload) - 13:
        yield "format", f"NeuroPilot network, header version {version}"
        yield "arguments", f"{inputs} inputs, {outputs} outputs"
        yield "compiled network", count(size)


def neutron(payload: bytes) -> Facts:
    inputs, outputs, arguments = payload[:3]
    last = 3 + 2 * (inputs + outputs)
    at = (last + 1 + 15) // 16 * 16
    words = struct.unpack_from("<8I", payload, at)
    if words[0] == 0x64434D6E:
        yield "format", f"Neutron microcode, payload version {payload[last]}"
        yield "arguments", f"{arguments} inputs, {inputs} of them for the NPU; {outputs} outputs"
        yield "microcode", count(words[6])
        yield "weights", count(words[7])


def qnn(payload: bytes) -> Facts:
    magic, signature, size = struct.unpack_from("<IqQ", payload)
    if magic == 0x5678ABCD:
        yield "format", "QNN context binary after ExecuTorch's header"
        yield "signature", str(signature)
        yield "context binary", count(size)


def vgf(payload: bytes) -> Facts:
    if payload[:4] != b"VGF1":
        return
    yield "format", "VGF {}.{}.{}".format(*payload[8:11])
    for i, part in enumerate(("modules", "model sequence", "resources", "constants")):
        offset, size = struct.unpack_from("<QQ", payload, 16 + 16 * i)
        yield part, f"{count(size)} at {offset:,}"


def vulkan(payload: bytes) -> Facts:
    if payload[4:8] == b"VH00":
        _, at, size, _, constants = struct.unpack_from("<HIIIQ", payload, 8)
        yield "format", f"Vulkan graph (FlatBuffer '{payload[at + 4 : at + 8].decode('ascii')}')"
        yield "graph", count(size)
        yield "constants", count(constants)


class Reader(NamedTuple):
    """A reader of payloads."""

    read: Callable[..., Facts]
    takes_lookup: bool = False
    """Also takes `lookup`, after the payload."""


READERS: dict[str, Reader] = {
    "CoreAIBackend": Reader(_coreai.facts, takes_lookup=True),
    "CoreMLBackend": Reader(core_ml),
    "CudaBackend": Reader(inductor),
    "EthosUBackend": Reader(vela),
    "MLXBackend": Reader(mlx),
    "MPSBackend": Reader(mps),
    "MetalBackend": Reader(inductor),
    "NativeBackend": Reader(flatbuffer("portable graph", b"NPTG")),
    "NeuropilotBackend": Reader(neuropilot),
    "NeutronBackend": Reader(neutron),
    "QnnBackend": Reader(qnn),
    "TOSABackend": Reader(flatbuffer("TOSA graph", b"TOSA")),
    "VgfBackend": Reader(vgf),
    "VulkanBackend": Reader(vulkan),
}
"""Readers by the id of the backend: the ids of csrc/backend/known.def whose payloads have a
header."""
