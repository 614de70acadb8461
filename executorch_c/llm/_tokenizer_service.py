"""Reads tokenizer files by their packages, encodes and decodes in the process with limits
(`executorch_c._limited`): one process for each file.

The setup is ("hf" or another kind, data, arguments); its answer and those of "info" are JSON.
"""

from __future__ import annotations

import array
import json
from collections.abc import Sequence
from typing import Any


class HuggingFace:
    """A tokenizer.json, or an object of `tokenizers`, which the caller's process uses."""

    def __init__(self, source: Any) -> None:
        self.inner = source
        if isinstance(source, bytes):
            import tokenizers

            self.inner = tokenizers.Tokenizer.from_buffer(source)

    def info(self) -> dict[str, Any]:
        """Return special tokens by id, and the number of tokens."""
        added = self.inner.get_added_tokens_decoder()
        size = 1 + max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1)
        return {"special": {i: t.content for i, t in added.items() if t.special}, "size": size}

    def ids_of(self, *texts: str) -> list[int | None]:
        """Return the ids of tokens."""
        return [self.inner.token_to_id(text) for text in texts]

    def text_of(self, id: int) -> str:
        """Return the text of a token; empty without one."""
        return str(self.inner.id_to_token(id) or "")

    def encode(self, text: str, special: bool) -> Sequence[int]:
        """Return the ids of a text."""
        ids: Sequence[int] = self.inner.encode(text, add_special_tokens=special).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        return str(self.inner.decode(ids, skip_special_tokens=True))


class SentencePiece:
    """A SentencePiece model."""

    def __init__(self, data: bytes) -> None:
        import sentencepiece

        self.inner = sentencepiece.SentencePieceProcessor(model_proto=data)

    def info(self) -> dict[str, Any]:
        """Return the ids of the control tokens, and the number of tokens."""
        inner = self.inner
        return {"bos": inner.bos_id(), "eos": inner.eos_id(), "size": inner.get_piece_size()}

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text."""
        return [int(id) for id in self.inner.encode(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        return str(self.inner.decode(ids))


class Tiktoken:
    """Byte pairs with their ranks."""

    def __init__(self, ranks: dict[bytes, int], pattern: str) -> None:
        import tiktoken

        self.inner = tiktoken.Encoding(
            "executorch_c", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )

    def info(self) -> dict[str, Any]:
        """Return nothing: the caller has read the file."""
        return {}

    def encode(self, text: str) -> Sequence[int]:
        """Return the ranks of a text."""
        return self.inner.encode_ordinary(text)


KINDS = {"hf": HuggingFace, "sentencepiece": SentencePiece, "tiktoken": Tiktoken}
CALLS = ("encode", "decode", "ids_of", "text_of", "info")
_tokenizers: list[Any] = []


def answer(request: Any) -> str | bytes:
    """Return what a call gives: ids as 64-bit integers, texts, JSON."""
    name, *arguments = request
    if name in KINDS:
        _tokenizers[:] = [KINDS[name](*arguments)]
        return ""
    result = getattr(_tokenizers[0], name)(*arguments)
    if name == "encode":
        return array.array("q", result).tobytes()
    return result if isinstance(result, str) else json.dumps(result)
