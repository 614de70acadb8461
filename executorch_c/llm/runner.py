"""TextRunner: logits, generation and streaming of a text program.

    runner = TextRunner("model.pte", "tokenizer.json")
    print(runner.generate("Hello", max_new_tokens=20))
    for piece in runner.stream("Hello", temperature=0.8, seed=1):
        print(piece, end="")
    logits = runner.prefill([1, 15, 7])      # float32 [V], of the next token

A runner holds a conversation: tokens that it has seen stay in the program's caches until `reset`,
`rewind` or `restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _programs
from executorch_c.llm import signature as _signature
from executorch_c.llm import state as _state
from executorch_c.llm.special import choose_special

if TYPE_CHECKING:
    from typing_extensions import Self

    from executorch_c import KVCache, Program
    from executorch_c._arrays import Array
    from executorch_c._delegation import DelegateAtLoad
    from executorch_c._programs import ProgramSource
    from executorch_c._types import Data, FilePath
    from executorch_c.llm.generation import Stream
    from executorch_c.llm.result import Generation
    from executorch_c.llm.sampling import Sampler, SamplerName
    from executorch_c.llm.state import Snapshot
    from executorch_c.llm.tokenizers import Tokenizer


def as_ids(ids: object, vocabulary: int) -> list[int]:
    """Return token ids as a list of ints.

    Raises TypeError for other objects than ints, ValueError for an id out of range.
    """
    array = np.asarray(ids)
    if array.size == 0:
        return []
    if array.dtype.kind not in "iu" or array.ndim > 2 or (array.ndim == 2 and len(array) != 1):
        raise TypeError(
            f"expected token ids (ints, one sequence), found {array.dtype} of shape {array.shape}"
        )
    tokens: list[int] = array.reshape(-1).tolist()
    wrong = [i for i in tokens if not 0 <= i < vocabulary]
    if wrong:
        raise ValueError(
            f"token id {wrong[0]} is not in the vocabulary of the program (0 to {vocabulary - 1})"
        )
    return tokens


def as_float32(logits: Array) -> Array:
    """Return logits as float32; uint16 holds the bits of bfloat16."""
    if logits.dtype == np.uint16:
        wide: Array = (logits.astype(np.uint32) << 16).view(np.float32)
        return wide
    return logits.astype(np.float32, copy=False)


def _open(tokenizer: FilePath | Tokenizer) -> Tokenizer:
    from executorch_c.llm.tokenizers import open_tokenizer  # logits need no tokenizer

    return open_tokenizer(tokenizer)


class TextRunner:
    """A text program with its tokens, tokenizer and state.

    A runner is one conversation: a call from another thread waits (for the end of a generation,
    too), and appends to it. `fork` gives threads conversations of their own.

    Args:
        program: Path, bytes or file of a .pte, a Program, or a manager of the official flow.
        tokenizer: Path of a tokenizer (a file or folder, chosen by content), or an object with the
            members of `executorch_c.llm.tokenizers.Tokenizer`. None: token ids only.
        data_path: The .ptd file or files.
        method: The only method to call ("lora_forward"). Default: "forward", or "prefill" and
            "decode".
        bos_id, eos_ids: Override those of metadata and tokenizer.
        kernels, num_threads, delegate_at_load, kv_cache: As for `Program.load_method`.

    Raises ValueError for a program that is not a text program, and for a tokenizer with more tokens
    than the program has logits; exceptions of loading; ImportError without the tokenizer's package.
    `conflicts` lists contradictions between metadata and tokenizer.
    """

    def __init__(
        self,
        program: ProgramSource,
        tokenizer: FilePath | Tokenizer | None = None,
        data_path: Data | Sequence[Data] | None = None,
        *,
        method: str | None = None,
        bos_id: int | None = None,
        eos_ids: Sequence[int] | None = None,
        kernels: str = "default",
        num_threads: int | None = None,
        delegate_at_load: DelegateAtLoad | None = None,
        kv_cache: KVCache | None = None,
    ) -> None:
        started = perf_counter()
        opened = _programs.opened(program, data_path)
        self.program: Program = opened.program
        self.source = opened
        self._options: dict[str, Any] = {
            "kernels": kernels,
            "num_threads": num_threads,
            "delegate_at_load": delegate_at_load,
            "kv_cache": kv_cache,
        }
        capacity = None if kv_cache is None else kv_cache.capacity
        self.signature = _signature.limit_context(self._read_signature(method), capacity)
        self.tokenizer = None if tokenizer is None else _open(tokenizer)
        self.special = choose_special(self.signature, self.tokenizer, bos_id, eos_ids)
        self._engine = _state.Engine(self.program, self.signature.methods, **self._options)
        self._rewinding: _state.RewindRequirements | None = None
        self._start(_state.Session(self._engine))
        self.load_seconds = perf_counter() - started
        """Time to load program and tokenizer."""

    def _read_signature(self, method: str | None) -> _signature.TextSignature:
        return _signature.read(self.program, method)

    def _start(self, session: _state.Session) -> None:
        self._session = session
        self._pending: list[int] = []
        self._logits: Array | None = None
        self._stopped = False

    # ---- facts --------------------------------------------------------------------------------

    @property
    def context(self) -> int:
        """The maximum number of tokens of a conversation."""
        return self.signature.context

    @property
    def vocabulary(self) -> int:
        """The number of logits."""
        return self.signature.vocabulary

    @property
    def position(self) -> int:
        """The number of tokens in the caches."""
        return len(self._session.ids)

    @property
    def ids(self) -> list[int]:
        """The tokens in the caches, as a new list."""
        return list(self._session.ids)

    @property
    def pending(self) -> tuple[int, ...]:
        """Sampled tokens that are not in the caches yet: the next call begins with them."""
        return tuple(self._pending)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a generation."""
        return self.special.eos_ids

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Contradictions between the program's metadata and the tokenizer, a sentence each."""
        return self.special.conflicts

    def __repr__(self) -> str:
        kind = self.tokenizer.kind if self.tokenizer is not None else "no"
        return (
            f"<TextRunner: position {self.position} of {self.context}, vocabulary "
            f"{self.vocabulary}, {kind} tokenizer>"
        )

    # ---- tokens -------------------------------------------------------------------------------

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """Return the ids of a text. `bos` None: the tokenizer's habit at position 0, none later.

        Raises ValueError without a tokenizer.
        """
        if self.tokenizer is None:
            raise ValueError(
                "a text needs a tokenizer: TextRunner(program, tokenizer=...), or pass token ids"
            )
        if bos is None and self.position:
            bos = False
        ids = self.tokenizer.encode(text, None if bos is None else False)
        if bos and self.special.bos_id is not None:
            ids = [self.special.bos_id, *ids]
        return as_ids(ids, self.vocabulary)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens. Raises ValueError without a tokenizer."""
        if self.tokenizer is None:
            raise ValueError("a text needs a tokenizer: TextRunner(program, tokenizer=...)")
        return self.tokenizer.decode(list(ids))

    def _ids_of(self, prompt: object, bos: bool | None = None) -> list[int]:
        if isinstance(prompt, str):
            return self.encode(prompt, bos) if prompt else []
        return as_ids(prompt, self.vocabulary)

    # ---- calls --------------------------------------------------------------------------------

    def _check_room(self, count: int) -> None:
        if count > self.context - self.position:
            advice = (
                "; reset() or rewind() makes room"
                if count <= self.context
                else f": at most {self.context} fit in one conversation"
            )
            raise ValueError(
                f"{count} tokens at position {self.position} exceed the context of "
                f"{self.context} tokens (get_max_context_len){advice}"
            )
        if self._session.broken:
            raise RuntimeError(
                f"the state is not defined: {self._session.broken}; call reset() or restore()"
            )

    def _inputs(self, call: _signature.MethodCall, ids: Sequence[int], start: int) -> list[Array]:
        tokens = np.asarray([ids], call.token_dtype)
        if call.positions == "none":
            return [tokens]
        last = start + len(ids) if call.positions == "each" else start + 1
        return [tokens, np.arange(start, last).astype(call.position_dtype)]

    def _execute(self, call: _signature.MethodCall, ids: Sequence[int], start: int) -> Array:
        """Run one call and return its logits, float32 [rows, V]. The position is the caller's."""
        return self._run(call, self._inputs(call, ids, start))

    def _run(self, call: _signature.MethodCall, inputs: Sequence[Array]) -> Array:
        engine, session = self._engine, self._session
        with engine.lock:
            engine.switch_to(session)
            try:
                logits = engine.methods[call.method].execute(inputs)[0]
            except BaseException as error:
                if self._needs().recurrent:
                    session.broken = f"a call failed ({type(error).__name__})"
                raise
        rows: Array = as_float32(np.asarray(logits))
        return rows.reshape(-1, self.vocabulary)

    def forward(self, ids: Sequence[int]) -> Array:
        """Run one call on tokens at the current position, and return its logits.

        Returns float32 [rows, V]: a row for each token, or only the last one's, as exported.
        Raises ValueError for more tokens than one call takes (`signature.longest`), for too many
        for the context, and for ids out of range.
        """
        tokens = as_ids(ids, self.vocabulary)
        if not tokens:
            raise ValueError("forward needs at least 1 token")
        with self._session.lock:
            return self._append(tokens)

    def _append(self, tokens: list[int]) -> Array:
        self._check_room(len(tokens))
        if not self.signature.has_cache:
            call = self._call_for(self.position + len(tokens))
            logits = self._execute(call, [*self._session.ids, *tokens], 0)
            logits = logits[-len(tokens) :] if call.all_logits else logits
        else:
            logits = self._execute(self._call_for(len(tokens)), tokens, self.position)
        self._advance(tokens, logits[-1])
        return logits

    def _call_for(self, count: int) -> _signature.MethodCall:
        """Return the call for a number of tokens. Raises ValueError if there is none."""
        calls = (self.signature.decode, self.signature.prefill)
        for call in calls:
            if count == call.longest or (count < call.longest and not call.is_static):
                return call
        if not self.signature.has_cache:
            raise ValueError(f"the program takes exactly {calls[0].longest} tokens")
        raise ValueError(
            f"a call takes at most {self.signature.longest} tokens (exactly, if the "
            f"shape is static), found {count}; prefill() splits longer prompts"
        )

    def _advance(self, tokens: Sequence[int], logits: Array) -> None:
        session = self._session
        session.ids += tokens
        session.highest = max(session.highest, len(session.ids))
        self._logits, self._pending = logits, []

    def _chunks(self, tokens: list[int]) -> list[list[int]]:
        """Return tokens in parts of one call each."""
        if not self.signature.has_cache:
            return [tokens]
        parts, calls = [], (self.signature.prefill, self.signature.decode)
        while tokens:
            for call in calls:
                if len(tokens) >= call.longest or not call.is_static:
                    parts.append(tokens[: call.longest])
                    tokens = tokens[call.longest :]
                    break
        return parts

    def prefill(self, prompt: str | Sequence[int], *, bos: bool | None = None) -> Array:
        """Append a text or tokens, in as many calls as they need, and return the next logits.

        Returns float32 [V]. Raises the exceptions of `encode` and `forward`, before the first call.
        """
        with self._session.lock:
            tokens = [*self._pending, *self._ids_of(prompt, bos)]
            if not tokens:
                raise ValueError("an empty prompt: expected at least 1 token")
            self._check_room(len(tokens))
            for part in self._chunks(tokens):
                self.forward(part)
            last = self._logits
        assert last is not None
        return last

    def step(self, id: int) -> Array:
        """Append one token and return the logits of the next one, float32 [V]."""
        last: Array = self.forward([id])[-1]
        return last

    def all_logits(self, ids: Sequence[int]) -> Array:
        """Append tokens and return the logits after each of them, float32 [len(ids), V].

        Programs that return only the last logits are called token by token.
        """
        tokens = as_ids(ids, self.vocabulary)
        with self._session.lock:
            self._check_room(len(tokens))
            if self.signature.prefill.all_logits:
                rows = [self.forward(part) for part in self._chunks(tokens)]
            else:
                rows = [self.forward([token])[-1:] for token in tokens]
        none = np.zeros((0, self.vocabulary), np.float32)
        whole: Array = np.concatenate([none, *rows], axis=0)
        return whole

    # ---- state --------------------------------------------------------------------------------

    def _needs(self) -> _state.RewindRequirements:
        if self._rewinding is None:
            self._rewinding = _state.rewinding(self.program, self.signature.methods)
        return self._rewinding

    def reset(self) -> None:
        """Forget all tokens, and reset the program's state to that after loading."""
        with self._session.lock:
            self._session.reset()
            self._start(self._session)

    def rewind(self, position: int) -> None:
        """Go back to an earlier position: later tokens are forgotten.

        Raises ValueError for a position after the current one, RuntimeError if the program's state
        cannot go back: recurrent state, or a ring cache that has wrapped. `snapshot` and `restore`
        work for all programs.
        """
        with self._session.lock:
            self._rewind(position)

    def _rewind(self, position: int) -> None:
        if not 0 <= position <= self.position:
            raise ValueError(f"rewind to position {position}: expected 0 to {self.position}")
        if position == self.position:
            self._pending = []
            return
        session = self._session
        problem = self._needs().problem(session.highest, position)
        if problem or session.broken:
            raise RuntimeError(
                f"cannot rewind to position {position}: "
                f"{problem or session.broken}; use snapshot() and restore(), or "
                "reset()"
            )
        if position == 0:
            self.reset()
            return
        del session.ids[position:]
        self._start(session)

    def snapshot(self) -> Snapshot:
        """Return a copy of tokens and state, for `restore`."""
        session = self._session
        with session.lock:
            return _state.Snapshot(
                tuple(session.ids), session.highest, tuple(session.copy_state()), self._engine
            )

    def restore(self, snapshot: Snapshot) -> None:
        """Go to the tokens and state of a snapshot of this runner or one of its forks.

        Raises ValueError for a snapshot of another program.
        """
        if snapshot.engine is not self._engine:
            raise ValueError("the snapshot is of another loaded program")
        session = self._session
        with session.lock:
            with self._engine.lock:
                self._engine.switch_to(session)
                self._engine.restore(snapshot.state)
            session.ids, session.highest, session.broken = list(snapshot.ids), snapshot.highest, ""
            self._start(session)

    def fork(self) -> Self:
        """Return a runner with the same tokens and a copy of the state.

        Both continue independently. They share program, weights and tokenizer; a change between
        them copies the state, so long turns are cheaper than alternating tokens.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        with self._session.lock:
            other._start(self._session.fork())
            other._pending, other._logits = list(self._pending), self._logits
        return other

    # ---- generation ---------------------------------------------------------------------------

    def stream(
        self,
        prompt: str | Sequence[int] = "",
        *,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        logprobs: bool | int = False,
        bos: bool | None = None,
        ignore_eos: bool = False,
        sampler: SamplerName | Sampler = "default",
    ) -> Stream:
        """Return an iterator over the pieces of a generated text; its `result` is the Generation.

        Arguments and exceptions as for `generate`. They are checked here; the program runs when the
        iterator is advanced. A piece has whole characters only. Closing the iterator, or leaving
        its loop, ends the generation. Advancing it raises RuntimeError if another call has changed
        the conversation since the last piece.
        """
        from executorch_c.llm.generation import GenerationOptions, Stream
        from executorch_c.llm.sampling import Sampling

        rules = Sampling(repetition_penalty, temperature, top_k, top_p, min_p, seed)
        ids = self._ids_of(prompt, bos)
        options = GenerationOptions(max_new_tokens, stop, logprobs, ignore_eos, rules, sampler)
        return Stream(self, ids, options)

    def generate(
        self,
        prompt: str | Sequence[int] = "",
        *,
        callback: Callable[[str], object] | None = None,
        **options: Any,
    ) -> Generation:
        """Return the continuation of a text or of token ids, after all earlier tokens.

        Args:
            prompt: Text, or ids. Empty: continue after `prefill`.
            callback: Called with each piece of text. Its exception ends the generation and is
                raised; the runner stays usable.
            max_new_tokens: Default: as many as fit into the context.
            temperature: 0 (default): always the most likely token. Otherwise random.
            top_k, top_p, min_p, repetition_penalty: See `executorch_c.llm.sampling.Sampling`.
            seed: Equal seeds give equal texts. Default: random.
            stop: A text, or several, that ends the generation.
            logprobs: True: the log probability of each token; a number: also of the most likely n.
            bos: Begin with BOS. Default: the tokenizer's habit at position 0.
            ignore_eos: Go on after an end-of-sequence token.
            sampler: "default"; "official": the choices of ExecuTorch's runner, whose first token is
                always the most likely one; or a function of logits and earlier ids.

        Raises ValueError for an argument out of range, an empty prompt, a prompt longer than the
        context, and logits that are NaN; TypeError for a prompt that is neither text nor ids;
        exceptions of the program and of `callback`.
        """
        with self._session.lock:
            stream = self.stream(prompt, **options)
            for piece in stream:
                if callback is not None:
                    try:
                        callback(piece)
                    except BaseException:
                        stream.close()
                        raise
        return stream.result

    def stop(self) -> None:
        """End the running generation after its current token; from a callback or a thread."""
        self._stopped = True
