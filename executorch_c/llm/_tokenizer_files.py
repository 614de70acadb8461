"""Tokenizers that optional packages read: Hugging Face, SentencePiece, tiktoken, tekken."""

from __future__ import annotations

import array
import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from executorch_c import _extras, _files
from executorch_c._core import InvalidArgumentError
from executorch_c._limited.process import Ended, LimitedProcess, Limits, Refused
from executorch_c.llm import _tokenizer_service
from executorch_c.llm._byte_tokenizer import ByteTokenizer

LIMITS = Limits(seconds=30.0, memory=2 << 30, reply=1 << 30)
"""Limits of reading a file, and of a call, by a package."""
PACKAGES = {
    "hf": ("tokenizers",),
    "sentencepiece": ("sentencepiece",),
    "tiktoken": ("tiktoken", "regex"),
}

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
        document = json.loads(_files.read(path, _files.MAX_PARSED))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from error
    return document if isinstance(document, dict) else {}


def _content(token: object) -> str | None:
    """Return the text of a token in a config: "</s>" or {"content": "</s>"}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


class Package:
    """A tokenizer of a package, in a process with limits.

    Raises InvalidArgumentError, with the name of the file, for every failure there.
    """

    def __init__(self, kind: str, path: Path, *arguments: Any) -> None:
        packages = PACKAGES[kind]
        _extras.require(f"a tokenizer of {kind}", *packages)
        self.path = path
        service = Path(_tokenizer_service.__file__)
        self.process = LimitedProcess(service, packages, LIMITS, (kind, *arguments))
        self.description = self._json(f"not a valid file of {kind}", "info")

    def _ask(self, what: str, *request: Any) -> Any:
        try:
            return self.process.ask(request)
        except (Refused, Ended, OSError) as error:
            reason = str(error)
        raise InvalidArgumentError(f"{self.path}: {what}: {reason}")

    def _json(self, what: str, *request: Any) -> Any:
        try:
            return json.loads(self._ask(what, *request))
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            raise InvalidArgumentError(f"{self.path}: {what}: a malformed answer") from error

    def info(self) -> dict[str, Any]:
        """Return what the file says of special tokens, and the number of tokens."""
        found: dict[str, Any] = self.description
        return found

    def ids_of(self, *texts: str) -> list[int | None]:
        """Return the ids of tokens."""
        ids: list[int | None] = self._json("tokens", "ids_of", *texts)
        return ids

    def text_of(self, id: int) -> str:
        """Return the text of a token; empty without one."""
        return str(self._ask(f"token {id}", "text_of", id))

    def encode(self, text: str, *options: bool) -> list[int]:
        """Return the ids of a text."""
        what = f"encoding of {len(text):,} characters"
        data = self._ask(what, "encode", str.__str__(text), *options)
        if not isinstance(data, bytes) or len(data) % 8:
            raise InvalidArgumentError(f"{self.path}: {what}: a malformed answer")
        return array.array("q", data).tolist()

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        given = [int(id) for id in ids]
        return str(self._ask(f"decoding of {len(given):,} tokens", "decode", given))


class HuggingFace:
    """A tokenizer of the package `tokenizers`: of a file, or an object of the package."""

    kind = "hf"

    def __init__(
        self,
        inner: Package | _tokenizer_service.HuggingFace,
        config: Mapping[str, Any] | None = None,
        generation: Mapping[str, Any] | None = None,
    ) -> None:
        self.inner = inner
        self.config = dict(config or {})
        """tokenizer_config.json: special tokens, chat_template."""
        info = inner.info()
        self.special = {int(i): str(text) for i, text in info["special"].items()}
        self._size = int(info["size"])
        self._generation = generation or {}
        self.bos_id = self._named("bos_token", "bos", "begin_of_text")
        self.eos_ids = self._find_eos()

    @classmethod
    def read(cls, path: Path, folder: Path) -> HuggingFace:
        """Return the tokenizer of a tokenizer.json, with the config files of its folder."""
        inner = Package("hf", path, _files.read(path, _files.MAX_BYTES))
        config: dict[str, Any] = {}
        generation: dict[str, Any] = {}
        if path.name == "tokenizer.json":
            config = {
                **_json(folder / "special_tokens_map.json"),
                **_json(folder / "tokenizer_config.json"),
            }
            template = folder / "chat_template.jinja"
            if template.is_file():
                config["chat_template"] = _files.read(template, _files.MAX_PARSED).decode("utf-8")
            generation = _json(folder / "generation_config.json")
        return cls(inner, config, generation)

    @classmethod
    def of_object(cls, source: Any) -> HuggingFace:
        """Return the tokenizer of an object of `tokenizers`."""
        return cls(_tokenizer_service.HuggingFace(source))

    @classmethod
    def of_transformers(cls, source: Any) -> HuggingFace:
        """Return the tokenizer of an object of transformers."""
        config = {
            "bos_token": source.bos_token,
            "eos_token": source.eos_token,
            "chat_template": source.chat_template,
        }
        return cls(_tokenizer_service.HuggingFace(source.backend_tokenizer), config)

    @property
    def vocab_size(self) -> int:
        """Return the largest id plus 1."""
        return self._size

    def text_of(self, id: int) -> str:
        """Return the text of a token, special or not; empty without one."""
        return self.inner.text_of(id)

    @property
    def chat_template(self) -> object:
        """Return the template of tokenizer_config.json: a str, a list of named ones, or None."""
        return self.config.get("chat_template")

    def _named(self, key: str, *parts: str) -> int | None:
        """Return the id of the token that the config names, else of the only special token with
        one of some words in its text."""
        text = _content(self.config.get(key))
        if text is not None:
            return self.inner.ids_of(text)[0]
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
        ids = list(self.inner.encode(text, bos is not False))
        if bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids = [self.bos_id, *ids]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        return self.inner.decode(list(ids))

    def token_bytes(self, id: int) -> bytes | None:
        """Return None: a decoder of this format may look at neighbours."""
        return None


class SentencePiece:
    """A tokenizer of the package `sentencepiece`."""

    kind = "sentencepiece"

    def __init__(self, path: Path) -> None:
        self.inner = Package("sentencepiece", path, _files.read(path, _files.MAX_BYTES))
        info = self.inner.info()
        bos, eos = int(info["bos"]), int(info["eos"])
        self._size = int(info["size"])
        self.bos_id = bos if bos >= 0 else None
        self.eos_ids = (eos,) if eos >= 0 else ()

    @property
    def vocab_size(self) -> int:
        """Return the number of pieces."""
        return self._size

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """Return the ids of a text."""
        first = [self.bos_id] if bos is not False and self.bos_id is not None else []
        return first + self.inner.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without control tokens; unknown ids are left out."""
        count = self.vocab_size
        return self.inner.decode([i for i in ids if 0 <= i < count])

    def token_bytes(self, id: int) -> bytes | None:
        """Return None: the space before a word depends on its neighbours."""
        return None


class Tiktoken(ByteTokenizer):
    """Byte pair encoding of the package `tiktoken`."""

    kind = "tiktoken"

    def __init__(
        self,
        path: Path,
        ranks: Mapping[bytes, int],
        pattern: str,
        special: Mapping[str, int],
        bos: str,
        eos: Sequence[str],
        offset: int = 0,
    ) -> None:
        missing = [i for i in range(256) if bytes([i]) not in ranks]
        if missing:  # the package would panic at a text with this byte
            raise ValueError(f"the tokenizer has no token for byte 0x{missing[0]:02x}")
        if len(set(ranks.values())) < len(ranks):
            raise ValueError("two tokens have the same rank")
        self.inner = Package("tiktoken", path, dict(ranks), pattern)
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
        return [i + self.offset for i in self.inner.encode(text)]


def read_tiktoken(path: Path) -> Tiktoken:
    """Return the tokenizer of a file of ranks, with the special tokens and the pattern of Llama
    3. Raises ValueError for a damaged line."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(_files.read(path, _files.MAX_PARSED).splitlines(), 1):
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
    tokenizer = Tiktoken(path, ranks, LLAMA3_PATTERN, special, "<|begin_of_text|>", LLAMA3_EOS)
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
    tokenizer = Tiktoken(path, ranks, pattern, special, "<s>", ("</s>",), offset=reserved)
    tokenizer.kind = "tekken"
    return tokenizer
