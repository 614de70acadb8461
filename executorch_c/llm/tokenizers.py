"""Tokenizers, chosen by the content of their files.

    tokenizer = open_tokenizer("tokenizer.json")     # or tokenizer.model, tekken.json, a folder
    tokenizer.decode(tokenizer.encode("Hello"))

Hugging Face (tokenizer.json, or a folder with one), SentencePiece, tiktoken, tekken.json, and
llama2.c's format. The first four need their packages (extra `llm`); llama2.c's is read here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from executorch_c import _files
from executorch_c._core import InvalidArgumentError
from executorch_c._names import visible

if TYPE_CHECKING:
    from executorch_c._types import FilePath

TIKTOKEN_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n?")
IN_FOLDERS = ("tokenizer.json", "tekken.json", "tokenizer.model", "spiece.model", "tokenizer.bin")
"""Files of a folder, the first that exists is read."""


@runtime_checkable
class Tokenizer(Protocol):
    """The interface of a tokenizer. Any object with these members can be used."""

    @property
    def kind(self) -> str:
        """Return the name of the format."""

    @property
    def vocab_size(self) -> int:
        """Return the largest id plus 1."""

    @property
    def bos_id(self) -> int | None:
        """Return the id of the begin-of-sequence token; None without one."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Return the ids of end-of-sequence tokens."""

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """Return the ids of a text. `bos` None: the tokenizer's own habit."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""

    def token_bytes(self, id: int) -> bytes | None:
        """Return the bytes that one token adds to a text; None if they depend on its
        neighbours."""


def _file_in(folder: Path) -> Path:
    for name in IN_FOLDERS:
        if (folder / name).is_file():
            return folder / name
    files = sorted(folder.glob("*.model")) + sorted(folder.glob("*.tiktoken"))
    if len(files) == 1:
        return files[0]
    raise ValueError(
        f"{folder}: no tokenizer in this folder, expected one of {', '.join(IN_FOLDERS)}"
    )


def kind_of(path: Path) -> str:
    """Return the format of a tokenizer's file: "hf", "tekken", "tiktoken", "sentencepiece",
    "llama2c".

    Raises InvalidArgumentError for any other content and for more than 256 MB, OSError for a file
    that cannot be read.
    """
    from executorch_c.llm._llama2c import is_llama2c

    whole = _files.read(path, _files.MAX_BYTES)
    head = whole[:4096]
    text = head.lstrip()
    if text.startswith(b"{"):
        if b'"model"' in whole and b'"vocab"' in whole and b'"token_bytes"' not in whole:
            return "hf"
        if b'"token_bytes"' in whole:
            return "tekken"
        raise InvalidArgumentError(
            f'{path}: JSON, but neither a tokenizer.json (no "model") nor a tekken.json'
        )
    if TIKTOKEN_LINE.match(head):
        return "tiktoken"
    if is_llama2c(head, len(whole)):
        return "llama2c"
    if head[:1] == b"\n" and len(head) > 2 and head[1] and b"\n" in head[2:6]:
        return "sentencepiece"
    raise InvalidArgumentError(
        f"{path}: not a tokenizer (tokenizer.json, tekken.json, SentencePiece, "
        "tiktoken or llama2.c)"
    )


def open_tokenizer(source: FilePath | Tokenizer) -> Tokenizer:
    """Return the tokenizer of a file or folder; an object with a tokenizer's members is returned as
    it is, one of `tokenizers` or `transformers` is wrapped.

    Files are read by their packages in a process of their own: 30 s of processor time and 2 GB of
    memory for reading a file, for `encode` and for `decode`.

    Raises InvalidArgumentError (a ValueError) for another content, a damaged file and one that
    exceeds these limits, here and in `encode` and `decode`; OSError for a file that cannot be
    read; ImportError without the package of the format (extra
    `llm`), TypeError for another object.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _wrapped(source)
    path = Path(source)
    folder = path if path.is_dir() else path.parent
    path = _file_in(path) if path.is_dir() else path
    kind = kind_of(path)
    try:
        return _read(kind, path, folder)
    except (ImportError, OSError):
        raise
    except ValueError as error:
        raise InvalidArgumentError(_text_with(path, str(error))) from error
    except Exception as error:  # of what a file has in place of another type
        text = f"{path}: not a valid file of {kind}: {type(error).__name__}: {error}"
        raise InvalidArgumentError(visible(text)) from error


def _read(kind: str, path: Path, folder: Path) -> Tokenizer:
    from executorch_c.llm import _tokenizer_files as files

    if kind == "llama2c":
        from executorch_c.llm._llama2c import Llama2c

        return Llama2c.read(path)
    if kind == "hf":
        return files.HuggingFace.read(path, folder)
    if kind == "tekken":
        return files.read_tekken(path)
    return files.read_tiktoken(path) if kind == "tiktoken" else files.SentencePiece(path)


def _text_with(path: Path, text: str) -> str:
    """Return an error on one line, with the name of its file."""
    folder = str(path.parent)
    is_named = str(path) in text or (folder != "." and folder in text)
    return visible(text if is_named else f"{path}: {text}")


def _wrapped(source: Any) -> Tokenizer:
    from executorch_c.llm import _tokenizer_files as files

    if isinstance(source, Tokenizer) and hasattr(source, "token_bytes"):
        return source
    if type(source).__module__.startswith("tokenizers"):
        return files.HuggingFace.of_object(source)
    if hasattr(source, "backend_tokenizer"):  # transformers
        return files.HuggingFace.of_transformers(source)
    raise TypeError(f"expected a tokenizer, or the path of one, found {type(source).__name__}")
