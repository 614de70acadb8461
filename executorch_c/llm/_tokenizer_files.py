"""Tokenizers that optional packages read: Hugging Face, SentencePiece, tiktoken, tekken."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from executorch_c import _extras
from executorch_c.llm._byte_tokenizer import ByteTokenizer

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_RESERVED = 256
"""Special tokens after the ranks of a tiktoken file."""
LLAMA3_SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
MAX_TOKENS = 1 << 22
"""Upper bound of ids: a table has an entry for each."""
LLAMA3_EOS = ("<|end_of_text|>", "<|eot_id|>", "<|eom_id|>")


def _json(path: Path) -> dict[str, Any]:
    """Return a JSON object of a file; empty if there is none."""
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error
    return document if isinstance(document, dict) else {}


def _content(token: object) -> str | None:
    """Return the text of a token in a config: "</s>" or {"content": "</s>"}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


class HuggingFace:
    """A tokenizer of the package `tokenizers`."""

    kind = "hf"

    def __init__(
        self,
        inner: Any,
        config: Mapping[str, Any] | None = None,
        generation: Mapping[str, Any] | None = None,
    ) -> None:
        self.inner = inner
        self.config = dict(config or {})
        """tokenizer_config.json: special tokens, chat_template."""
        added = inner.get_added_tokens_decoder()
        self.special = {i: t.content for i, t in added.items() if t.special}
        self._generation = generation or {}
        self.bos_id = self._named("bos_token", "bos", "begin_of_text")
        self.eos_ids = self._find_eos()

    @classmethod
    def read(cls, path: Path, folder: Path) -> HuggingFace:
        """Return the tokenizer of a tokenizer.json, with the config files of its folder."""
        tokenizers = _extras.load("a tokenizer.json", "tokenizers")
        inner = tokenizers.Tokenizer.from_file(str(path))
        config: dict[str, Any] = {}
        generation: dict[str, Any] = {}
        if path.name == "tokenizer.json":
            config = {
                **_json(folder / "special_tokens_map.json"),
                **_json(folder / "tokenizer_config.json"),
            }
            template = folder / "chat_template.jinja"
            if template.is_file():
                config["chat_template"] = template.read_text(encoding="utf-8")
            generation = _json(folder / "generation_config.json")
        return cls(inner, config, generation)

    @classmethod
    def of_transformers(cls, source: Any) -> HuggingFace:
        """Return the tokenizer of an object of transformers."""
        config = {
            "bos_token": source.bos_token,
            "eos_token": source.eos_token,
            "chat_template": source.chat_template,
        }
        return cls(source.backend_tokenizer, config)

    @property
    def vocab_size(self) -> int:
        """Return the largest id plus 1."""
        return 1 + max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1)

    @property
    def chat_template(self) -> object:
        """Return the template of tokenizer_config.json: a str, a list of named ones, or None."""
        return self.config.get("chat_template")

    def _named(self, key: str, *parts: str) -> int | None:
        """Return the id of the token that the config names, else of the only special token with
        one of some words in its text."""
        text = _content(self.config.get(key))
        if text is not None:
            token: int | None = self.inner.token_to_id(text)
            return token
        ids = [i for i, name in self.special.items() if any(part in name.lower() for part in parts)]
        if key == "bos_token":
            ids = ids or [i for i, name in self.special.items() if name == "<s>"]
        return ids[0] if len(ids) == 1 else None

    def _find_eos(self) -> tuple[int, ...]:
        listed = self._generation.get("eos_token_id")
        named = self._named("eos_token", "eos", "end_of_text", "endoftext")
        ids = [named] if named is not None else []
        if isinstance(listed, (int, list)):
            ids = [*([listed] if isinstance(listed, int) else listed), *ids]
        if not ids:
            ids = [i for i, name in self.special.items() if name == "</s>"]
        return tuple(dict.fromkeys(ids))

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """Return the ids of a text. `bos` None or True: with the special tokens that the file's
        post-processor adds; True also adds BOS if it adds none."""
        ids: list[int] = self.inner.encode(text, add_special_tokens=bos is not False).ids
        if bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids = [self.bos_id, *ids]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        text: str = self.inner.decode(list(ids), skip_special_tokens=True)
        return text

    def token_bytes(self, id: int) -> bytes | None:
        """Return None: a decoder of this format may look at neighbours."""
        return None


class SentencePiece:
    """A tokenizer of the package `sentencepiece`."""

    kind = "sentencepiece"

    def __init__(self, path: Path) -> None:
        module = _extras.load("a SentencePiece tokenizer", "sentencepiece")
        self.inner = module.SentencePieceProcessor(model_file=str(path))
        bos, eos = self.inner.bos_id(), self.inner.eos_id()
        self.bos_id = bos if bos >= 0 else None
        self.eos_ids = (eos,) if eos >= 0 else ()

    @property
    def vocab_size(self) -> int:
        """Return the number of pieces."""
        return int(self.inner.get_piece_size())

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """Return the ids of a text."""
        first = [self.bos_id] if bos is not False and self.bos_id is not None else []
        return first + [int(i) for i in self.inner.encode(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without control tokens; unknown ids are left out."""
        count = self.vocab_size
        text: str = self.inner.decode([i for i in ids if 0 <= i < count])
        return text

    def token_bytes(self, id: int) -> bytes | None:
        """Return None: the space before a word depends on its neighbours."""
        return None


class Tiktoken(ByteTokenizer):
    """Byte pair encoding of the package `tiktoken`."""

    kind = "tiktoken"

    def __init__(
        self,
        ranks: Mapping[bytes, int],
        pattern: str,
        special: Mapping[str, int],
        bos: str,
        eos: Sequence[str],
        offset: int = 0,
    ) -> None:
        module = _extras.load("a tiktoken tokenizer", "tiktoken")
        missing = [i for i in range(256) if bytes([i]) not in ranks]
        if missing:  # the package would panic at a text with this byte
            raise ValueError(f"the tokenizer has no token for byte 0x{missing[0]:02x}")
        self.inner = module.Encoding(
            "executorch_c", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens={}
        )
        self.offset = offset
        ids = [*(rank + offset for rank in ranks.values()), *special.values()]
        size = max(ids, default=-1) + 1
        if size > MAX_TOKENS or min(ids, default=0) < 0:
            wrong = next(id for id in ids if not 0 <= id < MAX_TOKENS)
            raise ValueError(f"token id {wrong}, expected 0 to {MAX_TOKENS - 1:,}")
        pieces = [b""] * size
        for piece, rank in ranks.items():
            pieces[rank + offset] = piece
        super().__init__(
            pieces, special.get(bos), [special[n] for n in eos if n in special], special.values()
        )
        self.special_ids = dict(special)

    def _encode(self, text: str) -> list[int]:
        return [int(i) + self.offset for i in self.inner.encode_ordinary(text)]


def read_tiktoken(path: Path) -> Tiktoken:
    """Return the tokenizer of a file of ranks, with the special tokens and the pattern of Llama
    3. Raises ValueError for a damaged line."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        try:
            piece, rank = parts
            ranks[base64.b64decode(piece, validate=True)] = int(rank)
        except ValueError as error:
            raise ValueError(f"{path}: line {number} is not 'base64 rank'") from error
    if set(ranks.values()) != set(range(len(ranks))):
        raise ValueError(f"{path}: ranks are not 0 to {len(ranks) - 1}")
    names = [*LLAMA3_SPECIAL]
    names += [f"<|reserved_special_token_{i}|>" for i in range(2, LLAMA3_RESERVED - 9)]
    special = {name: len(ranks) + i for i, name in enumerate(names[:LLAMA3_RESERVED])}
    tokenizer = Tiktoken(ranks, LLAMA3_PATTERN, special, "<|begin_of_text|>", LLAMA3_EOS)
    tokenizer.assumption = (
        f"{path.name} has ranks only, no special tokens: those of Llama 3, and its pattern of "
        f"words, are assumed ({names[0]} is {len(ranks)})"
    )
    return tokenizer


def read_tekken(path: Path) -> Tiktoken:
    """Return the tokenizer of a tekken.json: special tokens first, then the ranks."""
    data = _json(path)
    config = data.get("config", {})
    reserved = int(config.get("default_num_special_tokens", 0))
    size = int(config.get("default_vocab_size", 0))
    try:
        rows = data["vocab"][: size - reserved] if size else data["vocab"]
        ranks = {base64.b64decode(row["token_bytes"]): int(row["rank"]) for row in rows}
        pattern = config["pattern"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a tekken.json: {error!r}") from error
    listed = data.get("special_tokens") or [
        {"rank": i, "token_str": name} for i, name in enumerate(("<unk>", "<s>", "</s>"))
    ]
    special = {row["token_str"]: int(row["rank"]) for row in listed}
    tokenizer = Tiktoken(ranks, pattern, special, "<s>", ("</s>",), offset=reserved)
    tokenizer.kind = "tekken"
    return tokenizer
