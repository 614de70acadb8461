"""References of text programs: logits of a whole sequence, from a model, a function, arrays, or
another program."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from executorch_c import _extras
from executorch_c._arrays import as_array
from executorch_c._eager_caches import restore_caches, save_caches
from executorch_c.llm.runner import TextRunner, as_float32

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.scripts import Script
    from executorch_c.llm.signature import TextSignature


CACHES = " caches"
"""Key of the caches outside the model, among its buffers: no name of one."""


class Reference(Protocol):
    """Logits that are right by definition."""

    title: str

    def logits(self, ids: Sequence[int], by_token: bool = False) -> Array | None:
        """Return the logits after each token of a sequence from its beginning, float32 [n, V]; None
        for a sequence that the reference does not know. `by_token`: with a call for each token, if
        there is a choice."""

    def replay(self, script: Script) -> Array | None:
        """Return the logits at the compared positions of a script, float32 [n, V], by its own
        calls; None if the reference has no calls, only logits of sequences."""

    def encoded(self, value: Array, number: int) -> Array | None:
        """Return the encoder's output for an input with a number; None if it is not known."""

    def use(self, states: Array, number: int) -> None:
        """Decode from states of an encoder: those of the input with a number."""


class WithoutEncoder:
    """Base of references of text programs, which have no encoder."""

    def encoded(self, value: Array, number: int) -> Array | None:
        """Return None: there is no encoder."""
        return None

    def use(self, states: Array, number: int) -> None:
        """Do nothing: no states are needed."""


class SequenceReference(WithoutEncoder):
    """Base of references that know the logits of whole sequences."""

    def replay(self, script: Script) -> Array | None:
        """Return None: there are no calls."""
        return None


def rows_of(logits: object, count: int, vocabulary: int, what: str) -> Array:
    """Return logits as float32 [count, V]. Raises ValueError for another shape."""
    array = as_float32(as_array(logits))
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(0, 0)
    if rows.shape != (count, vocabulary):
        raise ValueError(
            f"{what}: found logits of shape {array.shape}, expected [{count}, {vocabulary}]"
        )
    return rows


class ArrayReference(SequenceReference):
    """Arrays, one for each prompt: [n, V] logits after each token."""

    title = "the logits of `model`"

    def __init__(
        self, arrays: Sequence[object], prompts: Sequence[Sequence[int]], vocabulary: int
    ) -> None:
        if len(arrays) != len(prompts):
            raise ValueError(
                f"`model` has {len(arrays)} arrays of logits for {len(prompts)} prompts"
            )
        self.known = [
            (list(ids), rows_of(one, len(ids), vocabulary, f"prompt {i}"))
            for i, (one, ids) in enumerate(zip(arrays, prompts))
        ]

    def logits(self, ids: Sequence[int], by_token: bool = False) -> Array | None:
        """Return the logits of a prompt or of its beginning."""
        wanted = list(ids)
        for known, rows in self.known:
            if known[: len(wanted)] == wanted:
                return rows[: len(wanted)]
        return None


class FunctionReference(SequenceReference):
    """A function from ids to logits [n, V] or [1, n, V]."""

    title = "the function `model`"

    def __init__(self, function: Callable[[list[int]], object], vocabulary: int) -> None:
        self.function, self.vocabulary = function, vocabulary

    def logits(self, ids: Sequence[int], by_token: bool = False) -> Array | None:
        """Return the function's logits."""
        return rows_of(self.function(list(ids)), len(ids), self.vocabulary, "the function")


class ProgramReference(SequenceReference):
    """Another program."""

    def __init__(self, runner: TextRunner) -> None:
        self.runner, self.title = runner, "the other program"

    def logits(self, ids: Sequence[int], by_token: bool = False) -> Array | None:
        """Return the program's logits."""
        self.runner.reset()
        return self.runner.all_logits(ids)


class ModelReference(WithoutEncoder):
    """A torch.nn.Module: of Hugging Face, of export_llm, or with the program's own inputs.

    Its buffers are restored after each sequence. A model that returns only the last logits is
    called for each token. A model of Hugging Face gets whole sequences, without a cache.
    """

    title = "PyTorch eager"

    def __init__(self, model: Any, signature: TextSignature) -> None:
        self.torch = _extras.load("a PyTorch reference", "torch")
        self.model, self.signature = model, signature
        self.style: Callable[..., tuple[Any, ...]] | None = None
        """From tokens and positions to the arguments of the model."""
        self.is_of_hugging_face = hasattr(model, "config")
        self.takes_positions = signature.has_cache and not self.is_of_hugging_face
        """False: a call takes a sequence from its beginning, as those of Hugging Face do."""

    @property
    def decoder(self) -> Any:
        """The module that decodes."""
        return self.model

    @contextmanager
    def kept_buffers(self) -> Iterator[None]:
        """Restore all buffers of the model at the end; they begin as they are."""
        kept = self.buffers()
        full = getattr(self.model, "generate_full_logits", None)
        try:
            if full is not None:
                self.model.generate_full_logits = True
            with self.torch.no_grad():
                yield
        finally:
            if full is not None:
                self.model.generate_full_logits = full
            self.restore(kept)

    def call(self, ids: Sequence[int], start: int) -> Array:
        """Return the logits of one call of the model, float32 [rows, V]."""
        torch = self.torch
        tokens = torch.tensor([list(ids)], dtype=torch.int64)
        each = self.signature.decode.positions == "each"
        last = start + len(ids) if each else start + 1
        positions = torch.arange(start, last, dtype=torch.int64)
        if self.is_of_hugging_face:
            output = self.of_sequence(tokens)
        else:
            output = self.model(*self.arguments(tokens, positions))
        output = getattr(output, "logits", output)
        output = output[0] if isinstance(output, (tuple, list)) else output
        rows = as_float32(as_array(output))
        return rows.reshape(-1, rows.shape[-1])

    def of_sequence(self, tokens: Any) -> Any:
        """Return what a model of Hugging Face computes from a whole sequence, [1, n]."""
        return self.model(**self.keywords(tokens), use_cache=False)

    def keywords(self, tokens: Any, *others: Any) -> dict[str, Any]:
        """Return the arguments of a model of Hugging Face for tokens; `others`: the other inputs of
        the program's call, if there is one."""
        return {"input_ids": tokens}

    def arguments(self, tokens: Any, *others: Any) -> tuple[Any, ...]:
        """Return the arguments of the model for a call with tokens and, if there is a cache,
        positions: as tensors, or as export_llm's models take them. Raises ValueError if no known
        way works."""
        positions = others[-1] if others else None
        if self.style is None:
            self.style = self._find_style(tokens, positions)
        return self.style(tokens, positions)

    def _find_style(self, tokens: Any, positions: Any) -> Callable[..., tuple[Any, ...]]:
        """Return how the model is called: the first of the known ways that works."""
        model, errors = self.model, []
        styles: list[Callable[..., tuple[Any, ...]]] = [
            lambda t, p: (t, {"input_pos": p}),
            lambda t, p: (t, p),
            lambda t, p: (t,),
        ]
        if not self.signature.has_cache:
            styles = styles[-1:]
        elif not hasattr(model, "params"):
            styles = [styles[1], styles[2], styles[0]]
        for style in styles:
            kept = self.buffers()
            try:
                model(*style(tokens, positions))
            except Exception as error:  # a wrong signature fails in many ways
                errors.append(f"{type(error).__name__}: {error}")
                continue
            finally:
                self.restore(kept)
            return style
        raise ValueError(
            "the model cannot be called with tokens and positions; pass a function "
            f"from ids to logits [n, V] instead ({errors[0]})"
        )

    def logits(self, ids: Sequence[int], by_token: bool = False) -> Array | None:
        """Return eager's logits."""
        if by_token and self.takes_positions:
            return self._by_token(ids)
        limit = self.signature.longest if self.takes_positions else len(ids)
        with self.kept_buffers():
            rows = [self.call(ids[i : i + limit], i) for i in range(0, len(ids), max(limit, 1))]
        if sum(map(len, rows)) == len(ids):
            return np.concatenate([np.zeros((0, self.signature.vocabulary), np.float32), *rows])
        return self._by_token(ids)

    def _by_token(self, ids: Sequence[int]) -> Array:
        """Return logits of a model that returns only the last ones."""
        with self.kept_buffers():
            if self.takes_positions:
                rows = [self.call([token], i)[-1:] for i, token in enumerate(ids)]
            else:
                rows = [self.call(ids[: i + 1], 0)[-1:] for i in range(len(ids))]
        return np.concatenate(rows)

    def replay(self, script: Script) -> Array | None:
        """Return eager's logits by the script's calls: a model whose results depend on how a
        sequence is divided (a ring cache) is divided as the program is."""
        if not self.takes_positions or save_caches():  # which append, whatever the position
            return None
        rows = []
        with self.kept_buffers():
            initial = self.buffers()
            at = 0
            for action, known in zip(script.actions, script.known()):
                if action.kind == "feed":
                    logits = self.call(action.tokens, at)
                    if action.keep:
                        rows.append(logits[-1])
                elif not known and action.kind != "zero":
                    self.restore(initial)
                at = len(known)
        return np.stack(rows)

    def buffers(self) -> dict[str, Any]:
        """Return copies of the model's buffers, and of caches that eager keeps outside of it."""
        buffers = {name: b.detach().clone() for name, b in self.model.named_buffers()}
        return {**buffers, CACHES: save_caches()}

    def restore(self, kept: dict[str, Any]) -> None:
        """Set the model's buffers to copies of them."""
        for name, b in self.model.named_buffers():
            b.copy_(kept[name])
        restore_caches(kept[CACHES])


def make_reference(
    model: Any, signature: TextSignature, prompts: Sequence[Sequence[int]], tokenizer: Any = None
) -> Reference | None:
    """Return the reference of an argument of check_llm; None for None.

    Raises TypeError for an object that is none of the known references.
    """
    vocabulary = signature.vocabulary
    if model is None:
        return None
    if isinstance(model, TextRunner):
        return ProgramReference(model)
    if hasattr(model, "named_buffers"):
        return ModelReference(model, signature)
    if isinstance(model, (list, tuple)):
        return ArrayReference(model, prompts, vocabulary)
    if isinstance(model, np.ndarray):
        return ArrayReference([model], prompts, vocabulary)
    from executorch_c import Program

    if isinstance(model, Program) or not callable(model):
        return ProgramReference(TextRunner(model, tokenizer, delegate_at_load=False))
    return FunctionReference(model, vocabulary)


def deep_copy(model: Any) -> Any:
    """Return a copy of a model whose buffers may change."""
    return copy.deepcopy(model)
