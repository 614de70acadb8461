"""Chat templates, and conversations whose prefix stays in the caches."""

import json
from pathlib import Path
from typing import Any

import pytest

from executorch_c.llm import Chat, TextRunner
from executorch_c.llm.chat import render, template_of
from tests.llm import small_llm
from tests.llm.small_llm import program

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m['role'][0] }}>{{ m['content'] }}<|eot|>"
    "{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    small_llm.tokenizer_json(folder)
    config = {"bos_token": "<s>", "eos_token": "<|eot|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("kind", ["position", "recurrent"])
def test_turns_reuse_the_caches(kind: str, folder: Path) -> None:
    runner = TextRunner(program(kind), folder)
    chat = Chat(runner, "S", max_new_tokens=4)
    first = chat.send("hi")
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant"]
    assert chat.messages[-1]["content"] == first
    known = runner.position
    assert "".join(chat.stream("yo", max_new_tokens=3)) == chat.messages[-1]["content"]
    assert chat.last is not None
    fresh = TextRunner(program(kind), folder)
    prompt = Chat(fresh)
    prompt.messages = chat.messages[:-1]
    whole = fresh.generate(prompt.prompt(), max_new_tokens=3)
    assert whole.ids == chat.last.ids, "as the whole conversation at once"
    assert runner.ids == fresh.ids
    if kind == "position":
        assert chat.last.stats.prompt_tokens < runner.position - known + 8
    chat.reset()
    assert [m["role"] for m in chat.messages] == ["system"] and runner.position == 0


def test_a_message_that_does_not_fit_is_taken_back(folder: Path) -> None:
    chat = Chat(TextRunner(program(), folder), max_new_tokens=2)
    with pytest.raises(ValueError, match="exceed the context"):
        chat.send("long " * 40)
    assert chat.messages == []
    chat.send("hi")


def test_rendering() -> None:
    messages = [{"role": "user", "content": 'ü"'}]
    assert render("{{ messages[0].content }}|{{ add_generation_prompt }}", messages) == 'ü"|True'
    assert render("{{ messages | tojson }}", messages) == '[{"role": "user", "content": "ü\\""}]'
    assert (
        render("{% for m in messages %}\n  {% if 1 %}\nx{% endif %}\n{% endfor %}", messages) == "x"
    )
    assert len(render("{{ strftime_now('%Y') }}", messages)) == 4
    assert render("{{ bos_token }}{{ tools }}", [], bos_token="<s>", tools=3) == "<s>3"


@pytest.mark.parametrize(
    "template, match",
    [
        ("{% if %}", "chat template: "),
        ("{{ raise_exception('no system') }}", "no system"),
        ("{{ messages[0]['content'].x.y }}", "has no attribute 'x'"),
        ("{{ 1 + 'a' }}", "TypeError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("x" * (1 << 21), "at most"),
    ],
)
def test_templates_are_checked(template: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        render(template, [{"role": "user", "content": "x"}])


def test_templates_of_tokenizers(folder: Path) -> None:
    class Named:
        chat_template: Any = [
            {"name": "tool", "template": "T"},
            {"name": "default", "template": "D"},
        ]

    assert template_of(Named()) == "D" and template_of(Named(), "tool") == "T"
    with pytest.raises(ValueError, match="no chat_template"):
        template_of(object())
    with pytest.raises(ValueError, match="`runner` has no tokenizer"):
        Chat(TextRunner(program()))
    runner = TextRunner(program(), folder / "tokenizer.json")
    assert Chat(runner, template="{{ messages[0].content }}").prompt is not None


def test_a_missing_jinja2_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"jinja2: pip install 'executorch_c\[llm\]'"):
        render("x", [])


def test_a_long_conversation_is_within_the_limits() -> None:
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": "word " * 500} for i in range(2000)
    ]
    result = render(TEMPLATE, messages)
    assert result.count("word") == 1_000_000
