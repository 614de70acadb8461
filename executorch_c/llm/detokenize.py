"""Text of a stream of tokens: whole characters only, and stop texts across tokens.

A token may be a part of a character (byte-level BPE, byte fallback). A piece is passed on when its
characters are complete.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c.llm.tokenizers import Tokenizer

REPLACEMENT = "\ufffd"
MAX_HELD_CHARACTERS = 3
"""Replacement characters at the end of a text that may be the first bytes of a character."""
KEPT_TOKENS, MAX_PENDING_TOKENS = 4, 12
"""Tokens that are decoded again with the next one, and the number from which they are dropped."""


class Detokenizer:
    """Text of tokens, piece by piece.

    Args:
        tokenizer: A tokenizer.
        context: Earlier tokens: a space may depend on them.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._ids = list(context[-KEPT_TOKENS:])
        self._shown = len(tokenizer.decode(self._ids)) if self._ids else 0
        """Characters of `_ids` that were passed on."""

    def add(self, id: int) -> str:
        """Return the text that a token completes; empty within a character."""
        data = self._tokenizer.token_bytes(id)
        if data is not None:
            return self._bytes.decode(data)
        self._ids.append(id)
        text = self._tokenizer.decode(self._ids)
        waiting = min(len(text) - len(text.rstrip(REPLACEMENT)), MAX_HELD_CHARACTERS)
        piece = self._new(text, len(text) - waiting)
        if not waiting and len(self._ids) > MAX_PENDING_TOKENS:
            self._ids = self._ids[-KEPT_TOKENS:]
            self._shown = len(self._tokenizer.decode(self._ids))
        return piece

    def end(self) -> str:
        """Return the rest: U+FFFD for an incomplete character."""
        text = self._tokenizer.decode(self._ids) if self._ids else ""
        return self._bytes.decode(b"", final=True) + self._new(text, len(text))

    def _new(self, text: str, end: int) -> str:
        piece = text[self._shown : end]
        self._shown = max(self._shown, end)
        return piece


class StopTexts:
    """Finds stop texts in a stream, and holds back what may be the beginning of one.

    Raises ValueError for an empty stop text, TypeError for other objects than text.
    """

    def __init__(self, stop: str | Sequence[str] = ()) -> None:
        self.texts = (stop,) if isinstance(stop, str) else tuple(stop)
        for text in self.texts:
            if not isinstance(text, str):
                raise TypeError(f"`stop`: found {type(text).__name__}, expected str")
            if not text:
                raise ValueError("`stop`: an empty text stops at once")
        self._held = ""
        self.stop: str | None = None
        """The stop text that ended the stream."""

    def add(self, piece: str) -> str:
        """Return the text that can be shown; `stop` is set at the first stop text."""
        if not self.texts:
            return piece
        self._held += piece
        places = [(at, t) for t in self.texts if (at := self._held.find(t)) >= 0]
        if places:
            at, self.stop = min(places)
            shown, self._held = self._held[:at], ""
            return shown
        kept = max(
            (
                k
                for t in self.texts
                for k in range(min(len(t), len(self._held) + 1))
                if k and self._held.endswith(t[:k])
            ),
            default=0,
        )
        shown = self._held[: len(self._held) - kept]
        self._held = self._held[len(shown) :]
        return shown

    def end(self) -> str:
        """Return the text that was held back."""
        rest, self._held = self._held, ""
        return rest
