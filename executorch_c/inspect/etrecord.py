"""ETRecords: what the exporter knows of a program's instructions, to name events of devices.

    record = read_etrecord("model.etrecord")
    record.nodes["forward"]          # nodes of the edge program: operator, module, stack trace
    record.debug_handles["forward"]  # handles of these nodes, by instruction
    record.representative_inputs()   # needs torch

An ETRecord is a zip of JSON (maps, exported programs) and of weights and tensors as `torch.save`
writes them. The JSON is read without torch. Tensors are read when they are asked for, with torch's
`weights_only=True`, which runs no code of the file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from executorch_c import _core, _extras
from executorch_c._names import visible
from executorch_c._paths import reading
from executorch_c._render import text as _text

if TYPE_CHECKING:
    from executorch_c._types import FilePath

IDENTIFIER = "ETRECORD_V0"
EDGE_PROGRAM = "edge_dialect_exported_program"
PARTS = ("_state_dict", "_constants", "_example_inputs")
"""Ends of names of the entries that belong to an exported program."""
FORWARD = "forward"
MAX_JSON_BYTES = 1 << 27
"""Maximum size of an entry with JSON, and of a compressed one: the exporter compresses none."""
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
OPERATOR_PREFIXES = ("executorch.exir.dialects.edge.ops.", "torch.ops.")

DAMAGE = (
    *(AttributeError, EOFError, KeyError, NotImplementedError, OSError, OverflowError),
    *(RecursionError, TypeError, ValueError, zipfile.BadZipFile, zlib.error),
)
"""What a damaged zip or JSON raises."""

Handles = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class EdgeNode:
    """A node of the edge program."""

    name: str
    operator: str
    """Its operator: "aten.add.Tensor"."""
    debug_handle: int | None
    modules: dict[str, tuple[str, str]]
    """Modules around the node, from the outer to the inner one: path and type by key."""
    stack_trace: str = field(repr=False)

    @property
    def module(self) -> str:
        """Path of the inner module: "layers.0.conv"; empty for the model itself."""
        return [*self.modules.values()][-1][0] if self.modules else ""


@dataclass(frozen=True)
class Delegate:
    """A delegate's call: its backend, and the debug handles of its nodes by the node's number or
    name."""

    backend: str
    debug_handles: dict[str, Handles]

    def handles_of(self, delegate_id: int | str) -> Handles | None:
        """Return the handles of a node. Backends add to names: the key may be a word of one."""
        words = sorted(re.findall(r"[\w.]+", str(delegate_id)), key=len, reverse=True)
        keys = [key for key in (str(delegate_id), *words) if key in self.debug_handles]
        return self.debug_handles[keys[0]] if keys else None


@dataclass(frozen=True)
class ETRecord:
    """The contents of an ETRecord. Maps have the name of the method, then the instruction."""

    path: str
    entries: tuple[str, ...] = field(repr=False)
    """Names in the zip."""
    debug_handles: dict[str, dict[int, Handles]] = field(repr=False)
    """Handles of the nodes that an instruction computes."""
    delegates: dict[str, dict[int, Delegate]] = field(repr=False)
    num_outputs: dict[str, dict[int, int]] = field(repr=False)
    """Numbers of a delegate's outputs."""
    nodes: dict[str, tuple[EdgeNode, ...]] = field(repr=False)
    """Nodes of the edge program, which was not delegated yet."""

    @cached_property
    def _nodes_by_handle(self) -> dict[tuple[str, int | None], list[EdgeNode]]:
        groups: dict[tuple[str, int | None], list[EdgeNode]] = {}
        for method, nodes in self.nodes.items():
            for node in nodes:
                groups.setdefault((method, node.debug_handle), []).append(node)
        return groups

    def nodes_of(self, method: str, handles: Handles) -> tuple[EdgeNode, ...]:
        """Return the nodes of the edge program with these debug handles."""
        lists = [self._nodes_by_handle.get((method, handle), []) for handle in handles]
        return tuple([node for nodes in lists for node in nodes])

    def handles_at(
        self, method: str, instruction: int, delegate_id: int | str | None = None
    ) -> Handles | None:
        """Return the debug handles of an instruction, or of a node inside its delegate; None of
        unknown ones. Nodes of a delegate without a map (XNNPACK's) have handles as ids."""
        handles = self.debug_handles.get(method, {}).get(instruction)
        delegate = self.delegates.get(method, {}).get(instruction)
        if handles is None or delegate_id is None or delegate is None:
            return handles
        if not delegate.debug_handles and delegate_id in handles:
            return (int(delegate_id),)
        return delegate.handles_of(delegate_id)

    def modules_at(
        self, method: str, instruction: int, delegate_id: int | str | None = None
    ) -> list[str]:
        """Return the modules of an instruction, or of a node inside its delegate."""
        nodes = self.nodes_of(method, self.handles_at(method, instruction, delegate_id) or ())
        return [*dict.fromkeys(node.module for node in nodes if node.module)]

    def __str__(self) -> str:
        methods = [
            f"method {visible(name)}: {_text.plural(len(nodes), 'node')}, "
            f"{_text.plural(len(self.debug_handles.get(name, {})), 'instruction')}, "
            f"{_text.plural(len(self.delegates.get(name, {})), 'delegate')}"
            for name, nodes in self.nodes.items()
        ]
        rest = [name for name in self.entries if not name.endswith(PARTS)]
        return "\n".join(
            [f"ETRecord {self.path}", *methods, _text.wrapped("entries: " + ", ".join(rest))]
        )

    def representative_inputs(self) -> Any:
        """Return the inputs that the exporter recorded, as torch tensors; None without them.

        Raises ImportError without torch (extra `check`), InvalidExternalDataError.
        """
        return self._tensors("representative_inputs")

    def reference_outputs(self) -> Any:
        """Return the outputs that the exporter recorded, by method; None without them.

        Raises as `representative_inputs`.
        """
        return self._tensors("reference_outputs")

    def exported_program(self, entry: str = "exported_program") -> Any:
        """Return a torch.export.ExportedProgram: the model's, or that of another entry
        ("edge_dialect_exported_program/forward"), as the official package reads it.

        Raises ImportError without torch and executorch (extra `check`), KeyError (no such entry),
        InvalidExternalDataError.
        """
        _extras.require("reading a program of an ETRecord", "torch", "executorch")
        from executorch.exir.serde.export_serialize import SerializedArtifact
        from executorch.exir.serde.serialize import deserialize

        if entry not in self.entries:
            raise KeyError(f"{self.path}: no entry {entry!r}")
        return self._read_by_torch(
            lambda *parts: deserialize(SerializedArtifact(*parts)),
            *(entry, *(entry + part for part in PARTS)),
        )

    def _tensors(self, entry: str) -> Any:
        if entry not in self.entries:
            return None
        torch = _extras.load(f"reading {entry} of an ETRecord", "torch")
        return self._read_by_torch(
            lambda data: torch.load(io.BytesIO(data), weights_only=True), entry
        )

    def _read_by_torch(self, read: Callable[..., T], *names: str) -> T:
        """Return what a function of torch makes of entries; of damaged ones it raises anything."""
        with reading(self.path) as file:
            archive = _guarded(self.path, lambda: zipfile.ZipFile(file))
            parts = [_guarded(self.path, partial(_bytes, archive, name), name) for name in names]
        try:
            return read(*parts)
        except Exception as error:
            raise _core.InvalidExternalDataError(
                f"{self.path}: {names[0]} cannot be read: {type(error).__name__}: {error}"
            ) from error


def read_etrecord(path: FilePath) -> ETRecord:
    """Return the contents of an ETRecord, without torch.

    Raises InvalidExternalDataError for another or a damaged file, and OSError.
    """
    name = str(path)
    with reading(path) as file:
        return _guarded(name, lambda: _record(name, zipfile.ZipFile(file)))


def _guarded(path: str, read: Callable[[], T], entry: str = "") -> T:
    """Return what a function reads; its errors say that the file is damaged."""
    where = f"{path}: {entry}" if entry else path
    try:
        return read()
    except _core.Error:
        raise
    except zipfile.BadZipFile as error:
        raise _core.InvalidExternalDataError(f"{where}: this is not an ETRecord: {error}") from None
    except (*DAMAGE, RuntimeError) as error:  # RuntimeError: an encrypted zip
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise _core.InvalidExternalDataError(f"{where}: the ETRecord is damaged: {what}") from None


def _record(path: str, archive: zipfile.ZipFile) -> ETRecord:
    entries = tuple(archive.namelist())
    if IDENTIFIER not in entries:
        raise _core.InvalidExternalDataError(
            f"{path}: this is not an ETRecord: the zip has no entry {IDENTIFIER}"
        )

    def load(entry: str) -> Any:
        return _guarded(path, lambda: json.loads(_bytes(archive, entry, is_json=True)), entry)

    def methods(entry: str, read: Callable[[Any], T]) -> dict[str, dict[int, T]]:
        """Return a map of methods and instructions; empty without the entry or with null."""
        rows = (load(entry) if entry in entries else None) or {}
        return _guarded(
            path,
            lambda: {
                method: {int(number): read(row) for number, row in instructions.items()}
                for method, instructions in rows.items()
            },
            entry,
        )

    programs = {name: method for name in entries if (method := _edge_method(name)) is not None}
    return ETRecord(
        path,
        entries,
        methods("debug_handle_map", _handles),
        methods("delegate_map", _delegate),
        methods("instruction_id_to_num_outs_map", int),
        {
            method: _guarded(path, lambda: tuple(_nodes(load(name)["graph_module"]["graph"])), name)
            for name, method in programs.items()
        },
    )


def _bytes(archive: zipfile.ZipFile, entry: str, is_json: bool = False) -> bytes:
    info = archive.getinfo(entry)
    if info.compress_type not in COMPRESSIONS:  # decoders of others take memory as the file says
        raise ValueError(f"compressed by method {info.compress_type}, expected none or deflate")
    is_bounded = is_json or info.compress_type != zipfile.ZIP_STORED
    if is_bounded and info.file_size > MAX_JSON_BYTES:
        raise ValueError(f"{info.file_size} bytes, at most {MAX_JSON_BYTES} are read")
    return archive.read(info)


def _edge_method(entry: str) -> str | None:
    """Return the method whose edge program an entry has; older files have one, without a name."""
    if entry == EDGE_PROGRAM:
        return FORWARD
    folder, _, method = entry.partition("/")
    return method if folder == EDGE_PROGRAM and method and not method.endswith(PARTS) else None


def _handles(row: int | list[int]) -> Handles:
    return tuple(map(int, row)) if isinstance(row, list) else (int(row),)


def _delegate(row: Mapping[str, Any]) -> Delegate:
    handles = row.get("delegate_map") or {}
    return Delegate(
        str(row.get("name", "")),
        {str(key): _handles(value) for key, value in handles.items() if value is not None},
    )


def _nodes(graph: Mapping[str, Any]) -> Iterator[EdgeNode]:
    """Yield the nodes of a graph, and of the graphs that its nodes take (control flow)."""
    for node in graph["nodes"]:
        metadata, operator = node.get("metadata", {}), str(node["target"])
        for prefix in OPERATOR_PREFIXES:
            operator = operator.removeprefix(prefix)
        handle = metadata.get("debug_handle")
        yield EdgeNode(
            str(node["name"]),
            operator,
            None if handle is None else int(handle),
            dict(map(_module, filter(None, metadata.get("nn_module_stack", "").split(";")))),
            str(metadata.get("stack_trace", "")),
        )
        for argument in node.get("inputs", []):
            inner = argument["arg"].get("as_graph") if isinstance(argument["arg"], dict) else None
            if inner:
                yield from _nodes(inner["graph"])


def _module(text: str) -> tuple[str, tuple[str, str]]:
    """Return key, path and type of "key,path,type"; a path may have commas inside brackets."""
    key, _, rest = text.partition(",")
    path, kind, depth = rest, "", 0
    for position, character in enumerate(rest):
        depth += (character in "[(") - (character in ")]")
        if character == "," and depth == 0:
            path, kind = rest[:position], rest[position + 1 :]
            break
    return key.strip(), (path.strip(), kind.strip())
