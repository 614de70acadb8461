"""State of text programs: which buffers follow the position, and sessions that share a program.

A cache is addressed by position: after a rewind its later entries are overwritten before they are
read. A ring cache forgets its oldest entries once it has wrapped. Any other buffer (conv_state,
recurrent_state) changes with every token, so that a rewind needs a snapshot.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from executorch_c._eager_caches import methods_with_cache

if TYPE_CHECKING:
    from executorch_c import KVCache, Method, Program
    from executorch_c._arrays import Array
    from executorch_c._types import MethodStructure, StructureInstruction

Kind: TypeAlias = Literal["cache", "ring", "recurrent"]

BY_POSITION = {"llama::update_cache", "llama::sdpa_with_kv_cache"}
BY_INDEX = {"llama::update_cache_with_indices"}
PLACED = {
    "index_put",
    "index_copy",
    "slice_scatter",
    "select_scatter",
    "scatter",
    "_index_put_impl",
}
"""Operators of ATen that change some places of a buffer and keep the others."""


@dataclass(frozen=True)
class StateBuffer:
    """A buffer that a method keeps between calls and changes."""

    value: int
    """Index of the value in the method."""
    kind: Kind
    capacity: int
    """Entries of a cache."""
    dtype: str
    operator: str
    """The operator that writes it."""


class _Reader:
    """Buffers of one method, from its instructions."""

    def __init__(self, structure: MethodStructure) -> None:
        self.structure = structure
        self.steps = [step for chain in structure["chains"] for step in chain]
        self.maker: dict[int, StructureInstruction] = {}
        self.first: dict[int, tuple[str, str]] = {}
        """Role of a value in the first instruction that reads or writes it, and its kind."""
        self.writers: dict[int, list[StructureInstruction]] = {}
        self.changed: set[int] = set()
        """Values that an operator reads and writes."""
        inputs = set(structure["inputs"])
        for step in self.steps:
            for position, (index, _, role) in enumerate(step["args"]):
                if role == "return" or index in inputs:
                    continue
                if position or not _is_copy(step):
                    self.first.setdefault(index, (role, step["kind"]))
                elif role == "inout":
                    self.first.setdefault(index, ("out", step["kind"]))
                if role == "inout":
                    self.changed.add(index)
                if role in ("out", "inout"):
                    self.maker[index] = step
                    self.writers.setdefault(index, []).append(step)

    def place(self, index: int) -> tuple[object, object]:
        """Return the planned memory and offset of a value: elided views share them."""
        value = self.structure["values"][index]
        return (value.get("arena"), value.get("offset")) if value.get("arena") else (None, index)

    def buffers(self) -> Iterator[StateBuffer]:
        for index, (role, kind_of_first) in self.first.items():
            value = self.structure["values"][index]
            if value["kind"] != "Tensor" or index not in self.writers:
                continue
            # Files do not say which arguments of a delegate are outputs: a buffer that a delegate
            # reads first looks like one. But exporters change no intermediate result.
            guessed = role == "out" and kind_of_first == "delegate" and index in self.changed
            if role == "out" and not guessed:
                continue
            shape = value["shape"]
            for step in self.writers[index]:
                if guessed and step["kind"] == "delegate":
                    continue
                kind = self.kind(index, step)
                sequence = 1 if _name(step) in BY_POSITION | BY_INDEX else -2
                capacity = shape[sequence] if len(shape) == 4 else max(shape, default=1)
                yield StateBuffer(
                    index, kind, capacity, value["dtype"], step["name"] or step["kind"]
                )

    def kind(self, index: int, step: StructureInstruction) -> Kind:
        name = _name(step)
        if name in BY_POSITION:
            return "cache"
        if name in BY_INDEX:
            return "ring"
        seen: set[int] = set()
        return "cache" if self._is_placed(index, step, seen) else "recurrent"

    def _is_placed(self, index: int, step: StructureInstruction, seen: set[int]) -> bool:
        """Return True if an instruction's result is the buffer with some places replaced."""
        here, name = self.place(index), _short(step)
        inputs = [arg for arg, _, role in step["args"] if role == "in"]
        if name in PLACED:
            return any(self.place(arg) == here for arg in self._taken(step))
        if name in ("copy", "alias_copy", "et_view", "where", "clone", "_to_copy"):
            for arg in inputs:
                maker = self.maker.get(arg)
                if arg not in seen and maker is not None and maker is not step:
                    seen.add(arg)
                    if self._is_placed(index, maker, seen):
                        return True
        return False

    def _taken(self, step: StructureInstruction) -> Iterator[int]:
        """Yield the buffer that an operator changes, and the source of its copy."""
        for arg, _, role in step["args"][:1]:
            if role != "out":
                yield arg
            maker = self.maker.get(arg)
            if maker is not None and _short(maker) in ("alias_copy", "et_view", "clone", "where"):
                yield from (a for a, _, r in maker["args"] if r == "in")


def _name(step: StructureInstruction) -> str:
    return (step["name"] or "").partition(".")[0]


def _is_copy(step: StructureInstruction) -> bool:
    """Return True for copy and copy_, which read the shape of their first argument, no numbers."""
    return _short(step) == "copy"


def _short(step: StructureInstruction) -> str:
    return _name(step).rpartition("::")[2].rstrip("_") if step["kind"] == "kernel" else step["kind"]


def buffers_of(program: Program, method: str) -> list[StateBuffer]:
    """Return the buffers that a method keeps between calls and changes, in the order of use."""
    return list(_Reader(program._structure(method)).buffers())


@dataclass(frozen=True)
class RewindRequirements:
    """Requirements of a rewind to an earlier position."""

    recurrent: tuple[str, ...]
    """Operators that write buffers without positions."""
    ring: int | None
    """Entries of the smallest ring cache; None without one."""

    def problem(self, highest: int, position: int) -> str:
        """Return why state cannot go back from a position, or an empty string if it can.

        `highest` is the number of tokens that the caches have seen.
        """
        if position == 0:
            return ""
        if self.recurrent:
            return (
                f"the program has recurrent state (written by {self.recurrent[0]}), which "
                "cannot go back"
            )
        if self.ring is not None and highest > self.ring:
            return (
                f"the ring cache of {self.ring} entries has wrapped (after {highest} tokens) "
                "and overwritten earlier ones"
            )
        return ""


def rewinding(program: Program, methods: Sequence[str]) -> RewindRequirements:
    """Return the requirements of a rewind, over all methods of a text program."""
    buffers = [buffer for method in methods for buffer in buffers_of(program, method)]
    rings = [buffer.capacity for buffer in buffers if buffer.kind == "ring"]
    lost = [
        b.operator for b in buffers if b.kind == "recurrent" and not (rings and "int" in b.dtype)
    ]
    return RewindRequirements(tuple(dict.fromkeys(lost)), min(rings, default=None))


def _caches_by_method(
    program: Program, methods: Sequence[str], cache: KVCache | None
) -> list[tuple[str, KVCache | None]]:
    """Return methods with the cache that all of them which use one share: if none does, with the
    cache, which loading then refuses."""
    users = methods_with_cache(program).intersection(methods) if cache is not None else set()
    return [(name, cache if name in users or not users else None) for name in methods]


class Engine:
    """The loaded methods of a program, and the session whose state they hold.

    Forks share an engine: weights exist once, and a change of session copies the state. The lock
    is held during calls, so that sessions may run on several threads.
    """

    def __init__(self, program: Program, methods: Sequence[str], **options: Any) -> None:
        self.program = program
        self.methods: dict[str, Method] = {
            name: program.load_method(name, **{**options, "kv_cache": cache})
            for name, cache in _caches_by_method(program, methods, options.get("kv_cache"))
        }
        self.lock = threading.RLock()
        self._owner: weakref.ref[Session] | None = None
        _engines.add(self)

    def save(self) -> list[Array]:
        """Return a copy of the state of all methods."""
        return [method.get_state() for method in self.methods.values()]

    def restore(self, saved: Sequence[Array] | None) -> None:
        """Restore a copy; None: the state after loading."""
        for method in self.methods.values():
            method.reset()
        for method, one in zip(self.methods.values(), saved or ()):
            method.set_state(one)

    def switch_to(self, session: Session) -> None:
        """Make the methods hold the state of a session. The caller holds the lock."""
        owner = self._owner() if self._owner is not None else None
        if owner is session:
            return
        if owner is not None:
            owner.saved = self.save()
        self.restore(session.saved)
        session.saved = None
        self._owner = weakref.ref(session)


@dataclass(eq=False)
class Session:
    """Tokens that a program has seen, and its state while another session has the engine."""

    engine: Engine
    ids: list[int] = field(default_factory=list)
    """Tokens in the caches."""
    highest: int = 0
    """Number of tokens that the caches have seen; after a rewind larger than len(ids)."""
    saved: list[Array] | None = None
    broken: str = ""
    """Why the state cannot be used until it is reset or restored."""
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """Held while tokens are appended, so that `ids` and the caches agree. Acquired before the
    engine's lock."""

    def __post_init__(self) -> None:
        _sessions.add(self)

    def reset(self) -> None:
        """Forget all tokens: the state is that after loading."""
        with self.engine.lock:
            self.engine.switch_to(self)
            self.engine.restore(None)
            self.ids, self.highest, self.broken = [], 0, ""

    def copy_state(self) -> list[Array]:
        """Return a copy of the state."""
        with self.engine.lock:
            self.engine.switch_to(self)
            return self.engine.save()

    def fork(self) -> Session:
        """Return a session with a copy of tokens and state."""
        return Session(self.engine, list(self.ids), self.highest, self.copy_state(), self.broken)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _replace_if_lost(one: Engine | Session) -> bool:
    if one.lock.acquire(blocking=False):
        one.lock.release()
        return False
    one.lock = threading.RLock()
    return True


def _replace_lost_locks() -> None:
    """Replace, in a forked process, the locks that threads of its parent held: no thread will
    release them."""
    lost = [engine for engine in _engines if _replace_if_lost(engine)]
    for session in _sessions:
        if _replace_if_lost(session) or session.engine in lost:
            session.broken = "another thread was using it when this process was forked"


os.register_at_fork(after_in_child=_replace_lost_locks)


@dataclass(frozen=True)
class Snapshot:
    """State and tokens at a position, from TextRunner.snapshot."""

    ids: tuple[int, ...]
    highest: int
    state: tuple[Array, ...]
    engine: Engine = field(repr=False)

    @property
    def position(self) -> int:
        """The number of tokens."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """The size of the copied state in bytes."""
        return sum(part.nbytes for part in self.state)
