"""Payloads of CoreAIBackend: a manifest in JSON, and the files of a model asset as named data.

The bytes are untrusted. `manifest` checks the fields that this package uses, `read` the files: the
SHA-256 of the program is compared with that of the asset and the manifest before an engine sees
it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch_c._core import InvalidProgramError, NotFoundError, NotSupportedError

Lookup = Callable[[str], bytes | None]
"""A function from a key of named data to its bytes; None without such data."""

PACKAGINGS = ("inline", "sidecar", "aot_compiled_inline", "aot_compiled_sidecar")
ASSET = "model.aimodel"
PROGRAM, HASH, METADATA = (
    f"{ASSET}/{name}" for name in ("main.mlirb", "main.hash", "metadata.json")
)
MAX_MANIFEST_BYTES = 1 << 20
MAX_FILES = 64
MAX_NAME = 256
MAGIC = b"ML\xefR"
"""The first bytes of MLIR bytecode; a producer, zero-terminated, follows its version."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a payload."""

    packaging: str
    hash: str
    """SHA-256 of the program, 64 hexadecimal digits."""
    files: tuple[str, ...]
    """Names relative to the asset's folder; empty for a sidecar."""
    version: str | None
    """The oldest release of Apple's systems that the asset supports."""
    architectures: tuple[str, ...]
    """Of code that is compiled ahead of time."""

    @property
    def folder(self) -> str:
        """The asset's path beside the .pte, of a sidecar."""
        return f"{self.hash}/{ASSET}"

    def key(self, name: str) -> str:
        """Return the key of a file in the named data."""
        return f"coreai/{self.hash}/{name}"


def _expect(is_valid: bool, what: str, value: object, expected: str) -> None:
    if not is_valid:
        text = ascii(value)
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise InvalidProgramError(f"the manifest's '{what}' is {shown}, expected {expected}")


def _is_name(value: object) -> bool:
    """Return True for a relative path without "..", of printable characters."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
        return False
    parts = value.split("/")
    return not any(part in ("", ".", "..") for part in parts) and "\\" not in value


def _fields(payload: bytes) -> dict[str, Any]:
    if len(payload) > MAX_MANIFEST_BYTES:
        raise InvalidProgramError(
            f"the manifest has {len(payload):,} bytes, expected at most {MAX_MANIFEST_BYTES:,}"
        )
    try:
        fields = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidProgramError(
            f"the payload is not a manifest in JSON: {str(error)[:120]}"
        ) from None
    if not isinstance(fields, dict):
        raise InvalidProgramError(
            f"the manifest is a JSON {type(fields).__name__}, expected an object"
        )
    return fields


def manifest(payload: bytes) -> Manifest:
    """Return the manifest. Raises InvalidProgramError."""
    fields = _fields(payload)
    packaging, digest = fields.get("packaging"), fields.get("hash")
    _expect(packaging in PACKAGINGS, "packaging", packaging, "one of " + ", ".join(PACKAGINGS))
    is_hash = isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
    _expect(bool(is_hash), "hash", digest, "64 hexadecimal digits")
    files = fields.get("files", [])
    is_list = isinstance(files, list) and len(files) <= MAX_FILES and all(map(_is_name, files))
    _expect(is_list, "files", files, f"at most {MAX_FILES} relative names")
    version = fields.get("min_deployment_version")
    is_version = version is None or (isinstance(version, str) and len(version) <= 16)
    _expect(is_version, "min_deployment_version", version, "a version or null")
    architectures = fields.get("archs", {})
    is_map = isinstance(architectures, dict) and all(map(_is_name, architectures))
    _expect(is_map, "archs", architectures, "an object of architectures")
    this = Manifest(str(packaging), str(digest), tuple(files), version, tuple(architectures))
    if packaging in ("inline", "sidecar"):
        path = fields.get("path")
        _expect(path == this.folder, "path", path, f"'{this.folder}'")
    if packaging == "inline":
        is_whole = {PROGRAM, HASH} <= set(files) and all(n.startswith(f"{ASSET}/") for n in files)
        _expect(is_whole, "files", files, f"{PROGRAM}, {HASH} and other files in {ASSET}")
    return this


def read(this: Manifest, lookup: Lookup, folder: str) -> dict[str, bytes]:
    """Return the files of an asset by name, of named data or of a folder with sidecars.

    Raises NotSupportedError for code of Apple's devices, NotFoundError for an absent file or
    folder, and InvalidProgramError for another hash.
    """
    if this.packaging.startswith("aot_"):
        names = ", ".join(this.architectures) or "unknown architectures"
        raise NotSupportedError(
            f"the payload is compiled for Apple's devices ({names}): export without the "
            "partitioner's option for compilation ahead of time, as a portable .aimodel"
        )
    files = _sidecar(this, folder) if this.packaging == "sidecar" else _inline(this, lookup)
    check_hash(this, files)
    return files


def _inline(this: Manifest, lookup: Lookup) -> dict[str, bytes]:
    files = {}
    for name in this.files:
        data = lookup(this.key(name))
        if data is None:
            raise NotFoundError(
                f"the manifest names the file '{name}', but the program has no named data "
                f"'{this.key(name)}'"
            )
        files[name] = data
    return files


def _sidecar(this: Manifest, folder: str) -> dict[str, bytes]:
    asset = Path(folder, this.folder)
    if not folder or not asset.is_dir():
        where = f"'{asset}' is no directory" if folder else "the option is empty"
        raise NotFoundError(
            f"the model is a sidecar, the directory '{this.folder}' beside the .pte: pass the "
            f"folder of the .pte as option 'sidecar_folder' ({where})"
        )
    names = (PROGRAM, HASH, METADATA)
    return {
        name: (asset.parent / name).read_bytes()
        for name in names
        if (asset.parent / name).is_file()
    }


def check_hash(this: Manifest, files: dict[str, bytes]) -> None:
    """Raise InvalidProgramError unless the program has the hash of the asset and the manifest."""
    for name in (PROGRAM, HASH):
        if name not in files:
            raise NotFoundError(f"the asset has no file '{name}'")
    found = hashlib.sha256(files[PROGRAM]).hexdigest()
    for where, expected in ((HASH, files[HASH].hex()), ("the manifest", this.hash)):
        if found != expected:
            raise InvalidProgramError(
                f"'{PROGRAM}' is damaged: its SHA-256 is {found[:16]}..., {where} has "
                f"{expected[:16] or 'none'}..."
            )
    if files[PROGRAM][:4] != MAGIC:
        raise InvalidProgramError(
            f"'{PROGRAM}' begins with {files[PROGRAM][:4].hex(' ')}, expected {MAGIC.hex(' ')} "
            "(MLIR bytecode)"
        )


# ---- what a payload shows without an engine -----------------------------------------------------


def producer(program: bytes) -> str | None:
    """Return the producer that MLIR bytecode names."""
    at = 5 + _varint_bytes(program[4:5]) - 1
    end = program.find(b"\0", at, at + MAX_NAME)
    if program[:4] != MAGIC or end < 0:
        return None
    return program[at:end].decode("ascii", "replace")


def _varint_bytes(first: bytes) -> int:
    """Return the bytes of a number whose first byte this is: one, and one for each low zero bit."""
    byte = first[0] if first else 1
    return (byte & -byte).bit_length() if byte else 9


def facts(payload: bytes, lookup: Lookup) -> Iterator[tuple[str, str]]:
    """Yield what a payload shows, as names and texts."""
    try:
        this = manifest(payload)
    except InvalidProgramError as error:
        yield "damaged", str(error)
        return
    kinds = {"inline": "in the program's named data", "sidecar": f"beside the .pte: {this.folder}"}
    yield "format", f"Core AI asset, {kinds.get(this.packaging, 'compiled for Apple devices')}"
    yield "hash", f"SHA-256 {this.hash}"
    if this.version:
        yield "oldest system", this.version
    yield from (("compiled for", name) for name in this.architectures)
    files = {name: data for name in this.files if (data := lookup(this.key(name))) is not None}
    for name in this.files:
        size = f"{len(files[name]):,} bytes" if name in files else "missing in the named data"
        yield f"file {name}", size
    if PROGRAM in files:
        yield from _program_facts(this, files)


def _program_facts(this: Manifest, files: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    try:
        check_hash(this, files)
    except (InvalidProgramError, NotFoundError) as error:
        yield "damaged", str(error)
        return
    yield "program", f"MLIR bytecode of {producer(files[PROGRAM]) or 'an unknown producer'}"
    try:
        metadata = json.loads(files.get(METADATA, b"{}")[:MAX_MANIFEST_BYTES])
    except (ValueError, RecursionError):
        return
    if isinstance(metadata, dict):
        for name in ("producer", "assetVersion"):
            if isinstance(metadata.get(name), str):
                yield name, metadata[name][:MAX_NAME]
