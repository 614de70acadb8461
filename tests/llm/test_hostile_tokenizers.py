"""Tokenizer files that crash, hang or fill memory in the packages that read them: each ends with
one Error that names the file, within limits."""

import copy
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import executorch_c
from executorch_c import _files
from executorch_c._limited.process import Limits
from executorch_c.llm import _tokenizer_files, open_tokenizer
from executorch_c.llm.tokenizers import Tokenizer
from tests.llm.test_tokenizers import KINDS, hf, sentencepiece, tekken

LOW = Limits(seconds=1.0, memory=256 << 20, reply=1 << 26)
TEXT = "a" * 60 + "c"


@pytest.fixture(autouse=True)
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tokenizer_files, "LIMITS", LOW)


def split(pattern: str) -> dict[str, Any]:
    return {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": False,
        }
    }


def replaced(of: str, by: str, times: int, part: str, parts: str) -> dict[str, Any]:
    one = {"type": "Replace", "pattern": {"String": of}, "content": by}
    return {part: {"type": "Sequence", parts: [one] * times}}


HF = {
    "endless pattern": split("(a+)+$"),
    "endless alternatives": split("(?:a|a)+b"),
    "no pattern": split("("),
    "empty pattern": replaced("", "x" * 1_000_000, 1, "normalizer", "normalizers"),
    "growing text": replaced("a", "aa", 40, "normalizer", "normalizers"),
    "growing decoder": replaced("e", "ee", 40, "decoder", "decoders"),
    "growing prefix": {"normalizer": {"type": "Prepend", "prepend": "x" * 9_000_000}},
    "no model": {"model": None},
    "model of another type": {"model": {"type": "Unigram", "vocab": [["a", "b"]], "unk_id": 9}},
    "number for a text": {"added_tokens": [{"id": -1, "content": 3}]},
    "huge id": {"added_tokens": [{"id": 4294967295, "content": "x", "special": True}]},
    "padding to gigabytes": {
        "padding": {
            "strategy": {"Fixed": 4_000_000_000},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<s>",
        }
    },
    "truncation with a stride": {
        "truncation": {
            "direction": "Right",
            "max_length": 1,
            "strategy": "LongestFirst",
            "stride": 9,
        }
    },
}
TEKKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "pattern (": lambda d: d["config"].update(pattern="("),
    "no pattern": lambda d: d["config"].update(pattern=""),
    "pattern of numbers": lambda d: d["config"].update(pattern=3),
    "endless pattern": lambda d: d["config"].update(pattern=r"(?:(a*)*)*\1b"),
    "lookahead": lambda d: d["config"].update(pattern=r"(?=(a+)+$)(a+)+$|(a|a)*(?<=b)\1"),
    "negative count": lambda d: d["config"].update(default_num_special_tokens=-(10**18)),
    "tokens are a number": lambda d: d.update(special_tokens=5),
    "token without a name": lambda d: d.update(special_tokens=[{"rank": 1}]),
    "huge rank": lambda d: d["vocab"].append({"rank": 2**70, "token_bytes": "YWE="}),
    "negative rank": lambda d: d["vocab"].append({"rank": -2, "token_bytes": "YWE="}),
    "one rank": lambda d: [row.update(rank=0) for row in d["vocab"]],
    "two equal ranks": lambda d: d["vocab"].append({"rank": 0, "token_bytes": "YWE="}),
    "config is a list": lambda d: d.update(config=[]),
    "vocabulary is a text": lambda d: d.update(vocab="abc"),
}


def check_is_limited(path: Path) -> None:
    """A file is refused by one Error with its name, or works."""
    try:
        tokenizer = open_tokenizer(path)
        tokenizer.decode(tokenizer.encode(TEXT) or [0])
    except executorch_c.InvalidArgumentError as error:
        text = str(error)
        assert path.name in text and "\n" not in text and len(text) < 2500, text[:2500]


@pytest.mark.parametrize("name", HF)
def test_hugging_face(name: str, tmp_path: Path) -> None:
    path = hf(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **copy.deepcopy(HF[name])}))
    check_is_limited(path)


@pytest.mark.parametrize("name", TEKKEN)
def test_tekken(name: str, tmp_path: Path) -> None:
    path = tekken(tmp_path)
    data = json.loads(path.read_text())
    TEKKEN[name](data)
    path.write_text(json.dumps(data))
    check_is_limited(path)


NESTED = '{"model":{"vocab":' * 50_000
JSON = {
    "nested": NESTED + "1" + "}}" * 50_000,
    "open": NESTED,
    "nested tekken": '{"token_bytes":' * 100_000,
    "digits": '{"model": 1, "vocab": ' + "9" * 100_000 + "}",
    "surrogate": '{"model": {"type": "BPE", "vocab": {"\\ud800": 0}, "merges": []}}',
    "line break": '{"model": {"type": "a\\nverdict: match\\u001b[2J", "vocab": {}}}',
}


@pytest.mark.parametrize("name", JSON)
def test_json(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_text(JSON[name])
    with pytest.raises(executorch_c.InvalidArgumentError, match=r"tokenizer\.json") as raised:
        open_tokenizer(path)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"chat_template": 3', "[]", "{}"])
def test_configs(text: str, tmp_path: Path) -> None:
    path = hf(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(text)
    try:
        assert open_tokenizer(path).encode("a")
    except executorch_c.InvalidArgumentError as error:
        assert "tokenizer_config.json" in str(error)


def test_damaged_sentencepiece(tmp_path: Path) -> None:
    """Files with changed bytes and numbers, which the C++ library does not check."""
    path = sentencepiece(tmp_path)
    data = path.read_bytes()
    cut = tmp_path / "cut.model"
    for at in range(8, len(data), len(data) // 12):
        cut.write_bytes(data[:at] + bytes([data[at] ^ 255, 255, 255, 127]) + data[at + 4 :])
        check_is_limited(cut)


def test_large_files_devices_and_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.model"
    with open(path, "wb") as file:
        file.truncate(_files.MAX_BYTES + 1)
    with pytest.raises(executorch_c.InvalidArgumentError, match="268,435,457 bytes, expected at"):
        open_tokenizer(path)
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(executorch_c.InvalidArgumentError, match="not a regular file"):
            open_tokenizer(name)
    path = tekken(tmp_path)
    monkeypatch.setattr(_files, "MAX_PARSED", 100)
    with pytest.raises(executorch_c.InvalidArgumentError, match=r"bytes, expected at most 100"):
        open_tokenizer(path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "llama2c"])
def test_ended_processes_and_forks(kind: str, tmp_path: Path) -> None:
    tokenizer = open_tokenizer(KINDS[kind](tmp_path))
    (tmp_path / "gone").mkdir()
    for path in tmp_path.glob("*.*"):
        path.unlink()
    ids = tokenizer.encode("Hello")
    process = tokenizer.inner.process  # type: ignore[attr-defined]
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert tokenizer.encode("Hello") == ids, "another process reads the same bytes"
    results: list[list[int]] = []

    def work(of: Tokenizer) -> None:
        results.append(of.encode("Hello"))

    threads = [threading.Thread(target=work, args=(tokenizer,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    fork = os.fork()
    if not fork:
        same = False
        try:
            same = tokenizer.encode("Hello") == ids
            process.close()
        finally:
            os._exit(not same)
    for thread in threads:
        thread.join()
    assert os.waitpid(fork, 0)[1] == 0 and results == [ids] * 3
    pid = process._process.pid
    del tokenizer, process
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
