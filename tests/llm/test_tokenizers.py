"""Tokenizers by content, their special tokens, and text of streams of tokens."""

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from executorch_c import _extras
from executorch_c.llm import TextRunner, open_tokenizer
from executorch_c.llm._byte_tokenizer import ByteTokenizer
from executorch_c.llm.detokenize import Detokenizer, StopTexts
from executorch_c.llm.tokenizers import Tokenizer
from tests.llm import small_llm

TEXTS = ["Hello world", "süß Größe", "日本語 🙂🙃 x", " two  spaces\n\ttab", "", "a", "don't 1234"]
PACKAGES = ("tokenizers", "sentencepiece", "tiktoken")


def hf(folder: Path) -> Path:
    pytest.importorskip("tokenizers")
    return small_llm.tokenizer_json(folder)


def sentencepiece(folder: Path) -> Path:
    module = pytest.importorskip("sentencepiece")
    (folder / "text.txt").write_text("\n".join([small_llm.TEXT] * 4), encoding="utf-8")
    module.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=400,
        byte_fallback=True,
        model_type="bpe",
        character_coverage=0.98,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    return folder / "tokenizer.model"


def ranks() -> list[bytes]:
    pieces = [bytes([i]) for i in range(256)]
    return [*pieces, b"He", b"ll", b"Hell", b"Hello", b" w", b"or", b"ld"]


def tiktoken(folder: Path) -> Path:
    pytest.importorskip("tiktoken")
    lines = [base64.b64encode(p) + f" {i}".encode() for i, p in enumerate(ranks())]
    path = folder / "ranks.model"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def tekken(folder: Path) -> Path:
    pytest.importorskip("tiktoken")
    vocab = [
        {"rank": i, "token_bytes": base64.b64encode(p).decode(), "token_str": None}
        for i, p in enumerate(ranks())
    ]
    special = [
        {"rank": i, "token_str": t, "is_control": True}
        for i, t in enumerate(("<unk>", "<s>", "</s>", "[INST]"))
    ]
    config = {
        "pattern": r"[^\s]+|\s+",
        "num_vocab_tokens": len(vocab),
        "version": "v3",
        "default_vocab_size": len(vocab) + 10,
        "default_num_special_tokens": 10,
    }
    path = folder / "tekken.json"
    path.write_text(json.dumps({"config": config, "vocab": vocab, "special_tokens": special}))
    return path


def llama2c(folder: Path, executorch: bool = True) -> Path:
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{i:02X}>" for i in range(256)),
        " ",
        "H",
        "e",
        "l",
        "o",
        "w",
        "r",
        "d",
        "He",
        "ll",
        "Hell",
        "Hello",
        " Hello",
        " w",
        "or",
        "ld",
        "ü",
    ]
    data = struct.pack("<i", 16)
    if executorch:
        data = struct.pack("<4i", len(pieces), 1, 2, 16)
    for i, piece in enumerate(pieces):
        text = piece.encode()
        data += struct.pack("<fi", -float(i), len(text)) + text
    path = folder / "tokenizer.bin"
    path.write_bytes(data)
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    "hf": hf,
    "sentencepiece": sentencepiece,
    "tiktoken": tiktoken,
    "tekken": tekken,
    "llama2c": llama2c,
}


@pytest.mark.parametrize("kind", KINDS)
def test_chosen_by_content(kind: str, tmp_path: Path) -> None:
    path = KINDS[kind](tmp_path)
    renamed = path.rename(tmp_path / "some.file")
    tokenizer = open_tokenizer(renamed)
    assert tokenizer.kind == kind and isinstance(tokenizer, Tokenizer)
    assert open_tokenizer(tokenizer) is tokenizer
    assert tokenizer.bos_id is not None and len(tokenizer.eos_ids) >= 1
    for text in TEXTS:
        ids = tokenizer.encode(text, bos=False)
        assert all(0 <= i < tokenizer.vocab_size for i in ids)
        result = tokenizer.decode(ids)
        assert (
            result == text
            or kind in ("sentencepiece", "llama2c")
            and result.lstrip() == (text.lstrip() if kind == "llama2c" else " ".join(text.split()))
        )
        with_bos = tokenizer.encode(text, bos=True)
        assert with_bos == [tokenizer.bos_id, *ids]
        assert tokenizer.decode(with_bos).strip() == result.strip()


@pytest.mark.parametrize("kind", KINDS)
def test_streams_have_whole_characters(kind: str, tmp_path: Path) -> None:
    tokenizer = open_tokenizer(KINDS[kind](tmp_path))
    for text in [*TEXTS, small_llm.TEXT, "🙂" * 20]:
        ids = tokenizer.encode(text, bos=False)
        stream = Detokenizer(tokenizer)
        pieces = [stream.add(i) for i in ids]
        assert "".join(pieces) + stream.end() == tokenizer.decode(ids)
        assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_ends_within_a_character(kind: str, tmp_path: Path) -> None:
    tokenizer = open_tokenizer(KINDS[kind](tmp_path))
    ids = tokenizer.encode("ab🙂", bos=False)[:-1]
    stream = Detokenizer(tokenizer)
    text = "".join(stream.add(i) for i in ids)
    assert text.strip() == "ab"
    assert set(stream.end()) <= {"\ufffd"} and stream.end() == ""


def test_llama2c_by_hand(tmp_path: Path) -> None:
    for executorch in (True, False):
        tokenizer = open_tokenizer(llama2c(tmp_path, executorch))
        names = [tokenizer.token_bytes(i) for i in tokenizer.encode("Hello world", bos=False)]
        assert names == [b" Hello", b" w", b"or", b"ld"]
        assert tokenizer.encode("€", bos=False)[1:] == [3 + b for b in "€".encode()]
        assert tokenizer.decode([1, *tokenizer.encode("Hello", bos=False)]) == "Hello"


def test_llama2c_joins_in_linear_time(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(llama2c(tmp_path))
    assert len(tokenizer.encode("Hello " * 20_000)) > 20_000


def test_special_tokens_of_a_folder(tmp_path: Path) -> None:
    small_llm.tokenizer_json((hf(tmp_path)).parent)
    tokenizer = open_tokenizer(tmp_path)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (1, (2,))
    config = {"eos_token": {"content": "<|eot|>"}, "bos_token": "<s>", "chat_template": "{{ 1 }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert open_tokenizer(tmp_path).eos_ids == (3,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 3]}')
    assert open_tokenizer(tmp_path / "tokenizer.json").eos_ids == (2, 3)
    assert getattr(open_tokenizer(tmp_path), "chat_template", None) == "{{ 1 }}"
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match="tokenizer_config.json: not valid JSON"):
        open_tokenizer(tmp_path)


def test_objects_of_other_packages(tmp_path: Path) -> None:
    inner = pytest.importorskip("tokenizers").Tokenizer.from_file(str(hf(tmp_path)))
    assert open_tokenizer(inner).encode("Hello")[0] == 1
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|eot|>")
    assert open_tokenizer(fast).eos_ids == (3,)
    with pytest.raises(TypeError, match="found int"):
        open_tokenizer(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content, match",
    [
        (b"", "not a tokenizer"),
        (b"text", "not a tokenizer"),
        (b"\x00" * 64, "not a tokenizer"),
        (b"{}", "neither a tokenizer.json"),
        (b'{"model": {"vocab": 1}}', "not a valid file of hf"),
        (b"IQ== 0\nIg== x\n", "line 2 is not"),
        (b"IQ== 0\nIg== 7\n", "ranks are not 0 to 1"),
        (b"IQ== 0\nIg== 1\n", "no token for byte 0x00"),
        (b'{"vocab": [{"token_bytes": 3}]}', "not a tekken.json"),
    ],
)
def test_damaged_files(content: bytes, match: str, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match):
        open_tokenizer(path)
    with pytest.raises(FileNotFoundError):
        open_tokenizer(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no tokenizer in this folder"):
        open_tokenizer(tmp_path / "empty")


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncated_file_is_one_exception(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind](tmp_path).read_bytes()
    path = tmp_path / "cut"
    for size in [*range(0, 64, 3), *range(64, len(data), max(len(data) // 23, 1))]:
        path.write_bytes(data[:size])
        try:
            tokenizer = open_tokenizer(path)
        except (ValueError, OSError):
            continue
        assert tokenizer.decode(tokenizer.encode("Hello")) is not None


def change_special(data: dict[str, Any], rank: int) -> None:
    data["special_tokens"][1]["rank"] = rank


def change_reserved(data: dict[str, Any], count: int) -> None:
    data["config"] |= {"default_num_special_tokens": count, "default_vocab_size": 0}


@pytest.mark.parametrize("change", [change_special, change_reserved])
@pytest.mark.parametrize("number", [300_000_000, -5])
def test_ids_out_of_range(
    change: Callable[[dict[str, Any], int], None], number: int, tmp_path: Path
) -> None:
    """A table of 300 million entries took 5 GB."""
    path = tekken(tmp_path)
    data = json.loads(path.read_text())
    change(data, number)
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=f"token id {number}, expected 0 to 4,194,303"):
        open_tokenizer(path)


def test_llama2c_without_bytes(tmp_path: Path) -> None:
    pieces = [b"<unk>", b"<s>", b"</s>", b" ", b"a"]
    data = b"".join(struct.pack("<fi", 0, len(piece)) + piece for piece in pieces)
    (tmp_path / "t.bin").write_bytes(struct.pack("<i", 5) + data)
    tokenizer = open_tokenizer(tmp_path / "t.bin")
    assert tokenizer.encode("aa", bos=False) == [3, 4, 4]
    with pytest.raises(ValueError, match="has 5 tokens, but none for some bytes"):
        tokenizer.encode("b")


@pytest.mark.parametrize(
    "package, kind",
    [("tokenizers", "hf"), ("sentencepiece", "sentencepiece"), ("tiktoken", "tiktoken")],
)
def test_a_missing_package_names_the_extra(
    package: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = KINDS[kind](tmp_path)
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}: pip install 'executorch_c\[llm\]'"):
        open_tokenizer(path)
    assert _extras.EXTRAS[package] == "llm"


def test_stop_texts() -> None:
    def run(stop: Any, *pieces: str) -> tuple[list[str], str | None]:
        stops = StopTexts(stop)
        shown = []
        for piece in pieces:
            shown.append(stops.add(piece))
            if stops.stop is not None:
                return shown, stops.stop
        return [*shown, stops.end()], None

    assert run("END", "a E", "N", "D b") == (["a ", "", ""], "END")
    assert run("END", "a E", "N", "x") == (["a ", "", "ENx", ""], None)
    assert run("END", "a EN") == (["a ", "EN"], None)
    assert run(["b", "ab"], "xab") == (["x"], "ab")
    assert run("aab", "a", "a", "a", "b") == (["", "", "a", ""], "aab")
    assert run((), "x") == (["x", ""], None)
    with pytest.raises(ValueError, match="empty"):
        StopTexts(["a", ""])
    with pytest.raises(TypeError, match="found int"):
        StopTexts([3])  # type: ignore[list-item]


def test_special_tokens_of_llama_are_said(tmp_path: Path) -> None:
    """A file of ranks has none: a model with others must not get them in silence."""
    tokenizer = open_tokenizer(tiktoken(tmp_path))
    assert "<|begin_of_text|> is 263" in tokenizer.assumption
    smaller = ByteTokenizer([b"a"] * small_llm.VOCABULARY, None, ())  # of the program's size
    smaller.assumption = tokenizer.assumption
    assert TextRunner(small_llm.program(), smaller).conflicts == (tokenizer.assumption,)
