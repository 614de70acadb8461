"""Chat templates in the process with limits: transformers' results, hostile templates, forks,
threads, and what is left behind."""

import datetime
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import executorch_c
from executorch_c._limited.process import Ended, LimitedProcess, Limits, Refused
from executorch_c.llm import _templates
from executorch_c.llm.chat import render
from tests.llm import hostile_templates

pytest.importorskip("jinja2")

MESSAGES = [{"role": "user", "content": "hi"}]
SECONDS, MEMORY = 0.5, 128 << 20
"""Limits of hostile templates here: a tenth and a quarter of the usual ones."""
SMALL = (
    "loops: loops",
    "loops: recursive loop of itself",
    "texts: product",
    "texts: doubled ~",
    "texts: 16 million characters",
    "numbers: power",
    "syntax: parentheses",
    "escapes: class",
)


@pytest.fixture(scope="module")
def low() -> Iterator[LimitedProcess]:
    limits = Limits(SECONDS, MEMORY, _templates.LIMITS.reply)
    usual = _templates._process()
    process = LimitedProcess(usual.service, usual.packages, limits)
    yield process
    process.close()


@pytest.fixture
def limited(low: LimitedProcess, monkeypatch: pytest.MonkeyPatch) -> LimitedProcess:
    monkeypatch.setattr(_templates, "_process", lambda: low)
    return low


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def check_is_limited(template: str, escape: bool = False) -> str:
    """A template ends with a short text or one Error of one line; return it."""
    before, used = peak(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        text = render(template, MESSAGES)
    except executorch_c.Error as error:
        assert isinstance(error, ValueError)
        text = str(error)
        assert text.startswith("chat template: ") and len(text) < 3000, text[:3000]
    else:
        assert not (escape and text), text[:200]
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    assert seconds < SECONDS + 1.5, "and its imports"
    assert peak() - before < 200, "MB"
    return text


@pytest.mark.parametrize("name", SMALL)
def test_hostile_templates_are_limited(name: str, limited: LimitedProcess) -> None:
    check_is_limited(hostile_templates.ROWS[name], escape=name.startswith("escapes"))
    assert render("{{ messages[0].content }}", MESSAGES) == "hi", "the next one runs"


@pytest.mark.heavy
@pytest.mark.parametrize("name", hostile_templates.ROWS)
def test_all_hostile_templates_are_limited(name: str, limited: LimitedProcess) -> None:
    check_is_limited(hostile_templates.ROWS[name], escape=name.startswith("escapes"))
    assert render("{{ messages[0].content }}", MESSAGES) == "hi", "the next one runs"


TEMPLATES = {
    "headers": "{{- bos_token }}{% for m in messages %}{% set content = '<|start|>' + m['role'] + "
    "'<|end|>\n\n' + m['content'] | trim + '<|eot|>' %}{{ content }}{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|start|>assistant<|end|>\n\n' }}{% endif %}",
    "date": "{% if not date is defined %}{% if strftime_now is defined %}"
    "{% set date = strftime_now('%d %b %Y %H:%M:%S %j') %}{% endif %}{% endif %}{{ date }}",
    "first system": "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}"
    "{% set system = messages[0].content %}{% else %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate: ' ~ m.role) }}{% endif %}{% if loop.first and "
    "system is defined %}{{ '<<' ~ system ~ '>>' }}{% endif %}[{{ m.content }}]{% endfor %}",
    "tools": "{% if tools %}{% for t in tools %}{{ t | tojson }}|{{ t | tojson(indent=4) }}|"
    "{{ t.function | tojson(separators=(',', ':'), sort_keys=True) }}|{{ t|string }}{% endfor %}"
    "{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}: {{ v.type }}"
    "{{ ', ' if not loop.last }}{% endfor %}{% endif %}",
    "macros": "{% macro kind(s, deep=false) -%}{% if s.type == 'array' %}{{ kind(s['items']) }}[]"
    "{% elif s is mapping and 'enum' in s %}{{ s.enum | map('tojson') | join(' | ') }}{% else %}"
    "{{ s.type or 'any' }}{% endif %}{%- endmacro %}{% for t in tools or [] %}"
    "{% for n, s in (t.function.parameters.properties | dictsort) %}{{ n }}={{ kind(s) }};"
    "{% endfor %}{% endfor %}",
    "namespaces": "{% set n = namespace(last=-1, parts=[]) %}{% for m in messages[::-1] %}"
    "{% if m.role == 'user' and n.last < 0 %}{% set n.last = (messages|length - 1) - loop.index0 %}"
    "{% set n.parts = n.parts + [m.content] %}{% endif %}{% endfor %}{{ n.last }}{{ n.parts }}",
    "thoughts": "{% for m in messages %}{% if '</think>' in (m.content or '') %}"
    "{{ m.content.split('</think>')[-1].lstrip('\n') }}|{{ m.content.split('<think>')[1]"
    ".rstrip() }}{% else %}{{ m.content or '' }}{% endif %}{% endfor %}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}\n"
    "  {{ m.content }}<|end|>\n  {%- endgeneration %}{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}",
    "controls": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}"
    "{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
    "parts": "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% elif m.content "
    "is iterable %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<image>"
    "{% endif %}{% endfor %}{% endif %}{% endfor %}",
    "filters": "{% for m in messages %}{{ m.role|capitalize }} {{ m.content|default('', true)"
    "|string|replace('\n', ' ')|truncate(9)|indent(2)|upper }} {{ loop.cycle('a', 'b') }}"
    "{% endfor %}{{ messages|map(attribute='role')|unique|sort|join(',') }}"
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}"
    "{{ messages|groupby('role')|map('first')|list }}{{ dict(a=1) }}{{ 7 // 2 ** 2 }}"
    "{{ '%s-%03d' % ('a', 5) }}{{ '{:>4}'.format('x') }}{{ [1, 2, 3][-1] }}"
    "{{ cycler('q').next() }}",
    "undefined": "{{ nothing }}{{ messages[0].nothing }}{{ nothing is defined }}"
    "{{ tools is none }}",
    "errors": "{{ messages[0].nothing.more }}",
    "escapes": "{{ ''.__class__ }}{{ namespace(_a=1) }}",
    "whitespace": "  {%- if true %}\n   x\n  {% endif -%}\n y {#- c -#} z\n"
    "{% raw %}{{ }}{% endraw %}\n",
    "syntax": "{% for m in messages %}",
}
"""The means of the templates of Llama 2 to 3.2, Qwen 2.5 and 3, Gemma, Phi, Mistral, Command R,
DeepSeek, GPT-OSS and SmolLM."""
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "<Weather> & \"more\" of 'ü'",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "enum": ["a", "ä"]},
                "days": {"type": "array", "items": {"type": "number"}, "default": [1.5, None]},
            },
        },
    },
}
CONVERSATIONS: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"role": "user", "content": " hi 🙂 <b> & \ud800 "}],
    [
        {"role": "system", "content": "Be\nbrief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb"},
        {"role": "user", "content": "c"},
    ],
    [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what"}]}],
    [{"role": "assistant", "content": None, "tool_calls": [TOOL]}, {"role": "tool", "n": 1.0}],
)


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_are_those_of_transformers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    official = pytest.importorskip("transformers.utils.chat_template_utils")
    now = datetime.datetime(2026, 2, 3, 4, 5, 6)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return now

    monkeypatch.setattr(official, "datetime", Clock)
    monkeypatch.setattr(_templates.datetime, "datetime", Clock)
    compared = 0
    for messages in CONVERSATIONS:
        for values in ({}, {"tools": None}, {"tools": [TOOL], "bos_token": "<s>"}):
            given = {"messages": messages, "add_generation_prompt": bool(values), **values}
            expected = None
            try:
                expected = official._compile_jinja_template(TEMPLATES[name]).render(**given)
            except Exception as error:
                message = getattr(error, "message", None) or str(error)
                match = message.partition("underscore")[0][:30]
                with pytest.raises(executorch_c.InvalidArgumentError) as raised:
                    _templates.render(TEMPLATES[name], given)
                assert name == "escapes" or match in str(raised.value)
            else:
                assert _templates.render(TEMPLATES[name], given) == expected
            compared += 1
    assert compared == 15


def test_values_are_plain() -> None:
    numpy = pytest.importorskip("numpy")

    class Text(str):
        def __str__(self) -> str:
            return "other"

    values = {"a": numpy.float32(1.5), "b": numpy.int64(3), "c": numpy.True_, "d": Text("t")}
    rows = {"rows": (1, [2]), "set": {4}, **values}
    assert render("{{ a }} {{ b }} {{ c }} {{ d }} {{ rows }} {{ set }}", [], **rows) == (
        "1.5 3 True t (1, [2]) [4]"
    )
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    for wrong, match in (
        ({"f": [len]}, r"'f'\[0\] is builtin_function_or_method, expected a text"),
        ({"deep": deep}, "is nested more than 100 deep"),
        ({"x": {"k": object()}}, r"'x'\['k'\] is object"),
    ):
        with pytest.raises(executorch_c.InvalidArgumentError, match=match):
            render("x", [], **wrong)


# ---- the process ------------------------------------------------------------------------------


def children() -> set[int]:
    """Processes that this one has started, zombies included."""
    path = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return {int(number) for number in path.read_text().split()}


def pid_of(process: LimitedProcess) -> int:
    assert process._process is not None
    return process._process.pid


def test_a_killed_process_is_replaced(limited: LimitedProcess) -> None:
    assert render("a", MESSAGES) == "a"
    files, before = len(os.listdir("/proc/self/fd")), len(children())
    for _ in range(3):
        old = pid_of(limited)
        os.kill(old, signal.SIGKILL)
        while limited._process is not None and limited._process.poll() is None:
            time.sleep(0.01)
        assert render("b", MESSAGES) == "b" and pid_of(limited) != old
    assert len(os.listdir("/proc/self/fd")) == files and len(children()) == before
    status = Path(f"/proc/{pid_of(limited)}/status").read_text()
    assert "Threads:\t1\n" in status


def test_an_interrupt_ends_the_request(limited: LimitedProcess) -> None:
    assert render("a", MESSAGES) == "a"
    limited.limits, usual = Limits(30, MEMORY, 1 << 20), limited.limits
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            render(hostile_templates.ROWS["loops: loops"], MESSAGES)
    finally:
        limited.limits = usual
        timer.join()
    assert limited._process is None, "its answer would be that to the next request"
    assert render("c", MESSAGES) == "c"


def test_threads_and_forks_get_their_own_texts(limited: LimitedProcess) -> None:
    wrong = []

    def work(number: int) -> None:
        for i in range(20):
            text = f"{number} {i}"
            if render("{{ x }}", MESSAGES, x=text) != text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    forks = []
    for n in range(3):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                before = pid_of(limited) if limited._process else 0
                status = int(render("{{ x }}", MESSAGES, x=n) != str(n)) or 2 * bool(before)
            finally:
                limited._close()
                os._exit(status)
        forks.append(pid)
    for thread in threads:
        thread.join()
    assert not wrong
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in forks] == [0, 0, 0]
    assert render("{{ 1 }}", MESSAGES) == "1"


SCRIPT = """
import os, sys
print("main runs", os.getpid(), flush=True)
from executorch_c.llm import _templates
from executorch_c.llm.chat import render
print(render("{{ 1 + 1 }}", []), flush=True)
print(_templates._process()._process.pid, flush=True)
mode = sys.argv[1]
if mode == "kill": os.kill(os.getpid(), 9)
if mode == "exit": os._exit(0)
"""


@pytest.mark.parametrize("mode", ["end", "exit", "kill"])
def test_the_process_ends_with_its_parent(mode: str, tmp_path: Path) -> None:
    """The user's script is not imported again, and nothing of it stays."""
    script = tmp_path / "main.py"
    script.write_text(SCRIPT)
    (tmp_path / "jinja2.py").write_text("raise SystemExit('a file of this name was imported')")
    (tmp_path / "datetime.py").write_text("")
    command = [sys.executable, "-P", str(script), mode]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    lines = done.stdout.split("\n")
    assert lines[0].startswith("main runs") and lines[1] == "2" and lines[3:] == [""], done
    end = time.monotonic() + 20
    while Path(f"/proc/{lines[2]}").exists():
        assert time.monotonic() < end, "still runs"
        time.sleep(0.02)


def test_a_process_that_cannot_start_is_an_error(
    limited: LimitedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited.close()
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(executorch_c.InvalidArgumentError, match="chat template: .*No such file"):
        render("a", MESSAGES)
    monkeypatch.setattr(sys, "executable", "/bin/app")
    with pytest.raises(executorch_c.InvalidArgumentError, match="no Python interpreter"):
        render("a", MESSAGES)
    monkeypatch.undo()


def test_the_process_cannot_open_files(tmp_path: Path) -> None:
    """A started process can open neither files nor sockets, whatever a template reaches."""
    service = tmp_path / "service.py"
    service.write_text(
        "import os, socket, sys\n"
        "def answer(what):\n"
        "    if what == 'modules': return ' '.join(sys.modules)\n"
        "    if what == 'open': open('/etc/passwd')\n"
        "    if what == 'socket': socket.socket()\n"
        "    if what == 'system': return str(os.system('true'))\n"
        "    if what == 'exit': os._exit(3)\n"
        "    if what == 'abort': os.abort()\n"
        "    if what == 'long': return 'x' * 2000\n"
        "    raise type('Panic', (BaseException,), {})('p' * 9999)\n"
    )
    process = LimitedProcess(service, (), Limits(1, MEMORY, 1000))
    limits = Limits(1, MEMORY, 1 << 20)
    other = LimitedProcess(service, (), limits)
    assert "executorch_c" not in str(other.ask("modules")) and "numpy" not in str(
        other.ask("modules")
    )
    assert other.ask("system") != "0"
    for what, match in (("open", "Too many open files"), ("socket", "Too many open files")):
        with pytest.raises(Refused, match=match):
            other.ask(what)
    for what, match in (("exit", "ended with exit code 3"), ("abort", "SIGABRT")):
        with pytest.raises(Ended, match=match):
            other.ask(what)
    with pytest.raises(Refused, match="^Panic: p{2000}$"):
        other.ask("")
    with pytest.raises(Ended, match="gives more than 1,000 bytes"):
        process.ask("long")
    process.close()
    other.close()
