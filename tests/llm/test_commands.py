"""The commands generate and perplexity, and the perplexity of programs."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import cli
from executorch_c.llm import TextRunner, perplexity
from executorch_c.llm.losses import interval, windows_of
from tests.llm import small_llm
from tests.llm.small_llm import CONTEXT, KINDS, eager, ids, program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("commands")
    small_llm.tokenizer_json(folder)
    (folder / "model.pte").write_bytes(program().read_bytes())
    config = {
        "bos_token": "<s>",
        "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 4)
    return folder


def run(*words: object) -> int:
    return cli.main([str(word) for word in words])


def test_generate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prompt", "The fox", "--max-new-tokens", 6, "--ignore-eos"]
    assert run("generate", folder / "model.pte", *options) == 0
    shown = capsys.readouterr()
    expected = TextRunner(program(), folder).generate("The fox", max_new_tokens=6, ignore_eos=True)
    assert shown.out == expected.text + "\n"
    assert "tokens/s" in shown.err and "length" in shown.err
    assert run("generate", program(), "--tokenizer", folder, *options, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ids"] == expected.ids and result["text"] == expected.text
    assert len(result["logprobs"]) == 6 and result["finish_reason"] == "length"
    assert result["stats"]["generated_tokens"] == 6


def test_generate_with_seeds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, options = [], "--max-new-tokens 12 --temperature 1 --top-p 0.95 --top-k 50 --ignore-eos"
    for seed in (1, 1, 2):
        words = ["--prompt", "The fox", *options.split(), "--seed", seed]
        run("generate", folder / "model.pte", *words)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_generate_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(program().read_bytes())
    assert run("generate", path, "--ids", "5,6,7", "--max-new-tokens", 3, "--ignore-eos") == 0
    result = TextRunner(path).generate([5, 6, 7], max_new_tokens=3, ignore_eos=True)
    assert capsys.readouterr().out == ",".join(map(str, result.ids)) + "\n"


def test_chats(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n\nyo\n"))
    assert run("generate", folder / "model.pte", "--chat", "--max-new-tokens", 2) == 0
    shown = capsys.readouterr()
    assert shown.err.count("tokens/s") >= 2
    options = "--chat --prompt hi --json --max-new-tokens 2"
    assert run("generate", folder / "model.pte", *options.split()) == 0
    assert json.loads(capsys.readouterr().out)["prompt_ids"]


@pytest.mark.parametrize(
    "words, code, match",
    [
        (["generate", "{m}"], 2, "pass --prompt, --ids or --chat"),
        (["generate", "{m}", "--chat", "--ids", "1"], 2, "--chat takes --prompt"),
        (["generate", "{m}", "--ids", "1,x"], 2, "not a list of token ids"),
        (["generate", "{m}", "--ids", "1", "--temperature", "-1"], 1, "`temperature` is -1"),
        (["generate", "{m}", "--ids", "999"], 1, "token id 999 is not in the vocabulary"),
        (["generate", "{m}", "--prompt", "x", "--tokenizer", "none"], 1, "No such file"),
        (["generate", "none.pte", "--prompt", "x"], 1, "none.pte"),
        (["perplexity", "{m}"], 2, "one of the arguments --text --ids is required"),
        (["perplexity", "{m}", "--ids", "4"], 1, "expected 2 or more"),
        (
            ["perplexity", "{m}", "--ids", "4 5", "--window", "99"],
            1,
            "`window` is 99, expected 2 to 48",
        ),
    ],
)
def test_errors(
    words: list[str], code: int, match: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(folder / "model.pte")
    try:
        outputs = run(*[word.format(m=model) for word in words])
    except SystemExit as error:
        outputs = int(error.code or 0)
    shown = capsys.readouterr().err
    assert outputs == code and match in " ".join(shown.split())
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", ["generate", "perplexity"])
def test_help_has_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run(command, "--help")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_conflicts_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--prompt x --max-new-tokens 1"
    run("generate", program(get_eos_ids=[9]), "--tokenizer", folder, *options.split())
    assert "warning: EOS is 9" in capsys.readouterr().err


def test_perplexity_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "p.html"
    args: list[Any] = ["perplexity", folder / "model.pte", "--text", folder / "text.txt"]
    assert run(*args, "--html", page) == 0
    assert "perplexity" in capsys.readouterr().out and "bits_per_byte" in page.read_text()
    assert run(*args, "--json", "--window", 20, "--stride", 7) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["low"] < result["perplexity"] < result["high"] and result["window"] == 20


# ---- perplexity ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [False, True])
def test_perplexity_is_eagers(kind: str, every: bool) -> None:
    tokens = ids(CONTEXT)
    report = perplexity(program(kind, every=every), tokens, progress=False)
    logits = eager(kind, tokens).astype(np.float64)[:-1]
    p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -p[np.arange(CONTEXT - 1), tokens[1:]]
    np.testing.assert_allclose(report.losses, losses, atol=1e-5)
    assert report.perplexity == pytest.approx(math.exp(losses.mean()), rel=1e-5)
    assert report.tokens == CONTEXT - 1 and report.windows == 1 and report.ok


def test_windows() -> None:
    for count, size, stride in ((2, 2, 1), (100, 10, 5), (101, 10, 3), (7, 10, 5), (50, 10, 9)):
        predicted = []
        for start, first, end in windows_of(count, size, stride):
            assert start < first < end <= start + size
            predicted += range(first, end)
        assert predicted == list(range(1, count))


def test_windows_give_each_token_its_context() -> None:
    tokens, size, stride = ids(60), 12, 6
    report = perplexity(program(), tokens, window=size, stride=stride, progress=False)
    losses = []
    for start, first, end in windows_of(60, size, stride):
        rows = eager("position", tokens[start : end - 1]).astype(np.float64)
        p = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        losses += [-p[i - 1 - start, tokens[i]] for i in range(first, end)]
    np.testing.assert_allclose(report.losses, losses, atol=1e-5)


def test_confidence() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        mean, error = interval(rng.exponential(2.0, 500))
        hits += abs(mean - 2.0) < 1.96 * error
    assert 175 <= hits <= 199
    assert interval(np.array([1.0])) == (1.0, math.inf)


def test_perplexity_of_nan() -> None:
    with pytest.raises(ValueError, match="position 0: 320 of 320 logits are NaN"):
        perplexity(program(fault="nan"), ids(9), progress=False)


MAKE = """
from tests.llm.small_llm import Decoder

def make():
    return Decoder("position").eval()

def wrong():
    return Decoder("position", fault="scale").eval()
"""


@pytest.fixture(scope="module")
def model_py(folder: Path) -> Path:
    path = folder / "model.py"
    path.write_text(MAKE)
    return path


def test_check_of_a_language_model(
    folder: Path, model_py: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pte = folder / "model.pte"
    assert run("check", pte, "--model", f"{model_py}:make", "--prompt", "The fox") == 0
    shown = capsys.readouterr().out
    assert "steps" in shown and "match" in shown
    assert run("check", pte, "--model", f"{model_py}:wrong", "--ids", "5,6,7,8", "--json") == 3
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "differ" and result["rows"]
    assert run("check", pte, "--reference", pte, "--ids", "5,6,7,8") == 0
    prompts = folder / "prompts.txt"
    prompts.write_text("The fox\n\nlazy dog\nThe dog\n")
    capsys.readouterr()
    words = ["--prompts", prompts, "--max-cases", 2, "--engines", "here", "--json"]
    assert run("check", pte, "--model", f"{model_py}:make", *words) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["prompt"] for row in rows if row["case"] == "steps"} == {0, 1}
    page = folder / "report.html"
    assert run("check", pte, "--llm", "--length", 8, "--html", page) == 0
    assert "steps" in page.read_text()


@pytest.mark.parametrize(
    "options, match",
    [
        (["--ids", "5,6", "--flow", "xnnpack"], "--flow is not an option of language models"),
        (["--llm", "--kernels", "reference"], "--kernels is not an option"),
        (["--reference", "x.pte", "--model", "m.py:make"], "pass --model or --reference"),
        (["--ids", "5,x"], "not a list of token ids"),
    ],
)
def test_wrong_options_of_check(
    options: list[str], match: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("check", folder / "model.pte", *options)
    assert stopped.value.code == 2 and match in capsys.readouterr().err
