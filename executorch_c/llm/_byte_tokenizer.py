"""Tokenizers whose tokens are bytes: tiktoken, tekken and llama2.c."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ByteTokenizer:
    """Base of tokenizers whose tokens are bytes, each independent of its neighbours."""

    kind = "bytes"
    assumption = ""
    """A sentence about what the file does not say; `TextRunner.conflicts` has it."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        bos_id: int | None,
        eos_ids: Sequence[int],
        special: Iterable[int] = (),
    ) -> None:
        self.pieces = list(pieces)
        self.bos_id = bos_id
        self.eos_ids = tuple(eos_ids)
        self.special = frozenset(special)

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens."""
        return len(self.pieces)

    def token_bytes(self, id: int) -> bytes | None:
        """Return the bytes of a token; empty for special tokens and unknown ids."""
        if id in self.special or not 0 <= id < len(self.pieces):
            return b""
        return self.pieces[id]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; invalid UTF-8 becomes U+FFFD."""
        return b"".join(self.token_bytes(i) or b"" for i in ids).decode("utf-8", "replace")

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """Return the ids of a text."""
        first = [self.bos_id] if bos is not False and self.bos_id is not None else []
        return first + self._encode(text)

    def _encode(self, text: str) -> list[int]:
        raise NotImplementedError
