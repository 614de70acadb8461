"""llama2.c's tokenizer: pieces with scores, joined pair by pair from single characters.

The file has a header of ints (of llama2.c: the longest piece; of ExecuTorch: vocabulary, BOS, EOS,
longest piece), and for each token a float32 score, an int32 length, and bytes.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Sequence
from pathlib import Path

from executorch_c import _files
from executorch_c.llm._byte_tokenizer import ByteTokenizer

BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
FIRST_BYTE = 3
"""Id of <0x00>: after <unk>, <s> and </s>."""
HEADERS = (16, 4)
MAX_TOKENS = 1 << 24


def _follows(data: bytes, at: int, size: int) -> bool:
    """Return True if one token with a plausible length starts at an offset."""
    if at + 8 > len(data):
        return False
    length = int.from_bytes(data[at + 4 : at + 8], "little", signed=True)
    return 0 <= length <= size - at - 8 and length < 4096


def header_of(data: bytes, size: int) -> int | None:
    """Return the length of the header; None for another format. The first token is <unk>."""
    for length in HEADERS:
        if _follows(data, length, size) and b"unk" in data[length + 8 : length + 16]:
            return length
    return None


def is_llama2c(head: bytes, size: int) -> bool:
    """Return True for the first bytes of llama2.c's format."""
    return header_of(head, size) is not None


class Llama2c(ByteTokenizer):
    """A tokenizer of llama2.c."""

    kind = "llama2c"

    def __init__(self, pieces: list[bytes], scores: list[float], bos: int, eos: int) -> None:
        super().__init__(pieces, bos, (eos,), {0, bos, eos})
        self.scores = scores
        self.ids = {piece: i for i, piece in reversed(list(enumerate(pieces)))}

    @classmethod
    def read(cls, path: Path) -> Llama2c:
        """Return the tokenizer of a file. Raises ValueError for a damaged one."""
        data = _files.read(path, _files.MAX_PARSED)
        start = header_of(data, len(data))
        if start is None:
            raise ValueError(f"{path}: not a tokenizer of llama2.c")
        count, bos, eos = struct.unpack_from("<3i", data) if start == 16 else (MAX_TOKENS, 1, 2)
        pieces: list[bytes] = []
        scores: list[float] = []
        at = start
        while at < len(data) and len(pieces) < count:
            if not _follows(data, at, len(data)):
                raise ValueError(f"{path}: token {len(pieces)} at offset {at} is damaged")
            score, length = struct.unpack_from("<fi", data, at)
            pieces.append(data[at + 8 : at + 8 + length])
            scores.append(score)
            at += 8 + length
        if start == 16 and len(pieces) != count:
            raise ValueError(f"{path}: {len(pieces)} tokens, the header says {count}")
        return cls(pieces, scores, bos, eos)

    def token_bytes(self, id: int) -> bytes | None:
        """Return the bytes of a token: one for <0x0A>, none for special tokens."""
        piece = super().token_bytes(id)
        byte = BYTE.fullmatch(piece or b"")
        return bytes([int(byte[1], 16)]) if byte else piece

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; the space that `encode` puts before the text is removed after
        BOS."""
        text = super().decode(ids)
        return text[1:] if ids and ids[0] == self.bos_id and text.startswith(" ") else text

    def _encode(self, text: str) -> list[int]:
        if not text:
            return []
        ids: list[int] = []
        for character in f" {text}":
            data = character.encode("utf-8", "replace")
            known = self.ids.get(data)
            ids += [known] if known is not None else [FIRST_BYTE + b for b in data]
        if max(ids) >= len(self.pieces):
            raise ValueError(
                f"the tokenizer has {len(self.pieces)} tokens, but none for some bytes of the text"
            )
        return self._joined(ids)

    def _joined(self, ids: list[int]) -> list[int]:
        """Join the pair with the best score, the first of equals, until no pair is a token."""
        after, before = list(range(1, len(ids) + 1)), list(range(-1, len(ids) - 1))
        alive = [True] * len(ids)
        queue: list[tuple[float, int, int, int, int]] = []

        def offer(left: int) -> None:
            right = after[left]
            if left < 0 or right >= len(ids):
                return
            joined = self.ids.get(self.pieces[ids[left]] + self.pieces[ids[right]])
            if joined is not None:
                heapq.heappush(queue, (-self.scores[joined], left, ids[left], ids[right], joined))

        for i in range(len(ids)):
            offer(i)
        while queue:
            _, left, one, two, joined = heapq.heappop(queue)
            right = after[left]
            if not alive[left] or right >= len(ids) or (ids[left], ids[right]) != (one, two):
                continue
            ids[left], alive[right], after[left] = joined, False, after[right]
            if after[right] < len(ids):
                before[after[right]] = left
            if before[left] >= 0:
                offer(before[left])
            offer(left)
        return [i for i, is_alive in zip(ids, alive) if is_alive]
