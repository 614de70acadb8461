"""Renders chat templates in the process with limits (`executorch_c._limited`): Jinja2's immutable
sandbox with what transformers adds to it.

The names are those that templates use with `apply_chat_template` of transformers 5: tojson without
HTML escapes, raise_exception, strftime_now, {% generation %}, {% break %}, and a `dict` and
`namespace` that are no types.
"""

from __future__ import annotations

import codecs
import datetime
import functools
import json
import pprint  # noqa: F401  Jinja2 imports it later, when no file can be opened
from typing import Any

import jinja2
import jinja2.constants
import jinja2.debug
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

ENCODINGS = "ascii latin-1 raw-unicode-escape unicode-escape utf-16 utf-32 utf-8".split()
"""Codecs that Jinja2 and templates use: read now, as other modules that are imported later."""
MAX_TEXT = 1 << 24
"""Characters of a result."""


class Generation(jinja2.ext.Extension):
    """The tag {% generation %}, which marks the text of the assistant: it is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        """Return the call of a block's body."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_same")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _same(self, caller: Any) -> Any:
        return caller()


class Dict:
    """`dict` of templates, whose attributes cannot be read as those of a type."""

    def __call__(self, *args: Any, **values: Any) -> dict[Any, Any]:
        return dict(*args, **values)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        """Return a dict with one value for all keys."""
        return dict.fromkeys(*args)


class Names(Namespace):
    """`namespace` of templates, without names that begin with "_"."""

    def __init__(*args: Any, **values: Any) -> None:
        self, *rest = args
        names = dict(*rest, **values)
        for name in names:
            _check_name(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"namespace: {name!r} begins with an underscore")


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: Any) -> None:
    raise jinja2.exceptions.TemplateError(message)


class _Clock:
    """The time of the request: this process can read no file of a time zone."""

    now = datetime.datetime.min

    def strftime(self, form: str) -> str:
        """Return the time in a format."""
        return self.now.strftime(form)


class TemplateError(Exception):
    """An error of a template whose message needs no type."""


for _name in ENCODINGS:
    codecs.lookup(_name)
_clock = _Clock()
_environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
_environment.filters["tojson"] = _to_json
_environment.globals |= {
    "raise_exception": _raise,
    "strftime_now": _clock.strftime,
    "dict": Dict(),
    "namespace": Names,
}


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    return _environment.from_string(template)


def answer(request: Any) -> str:
    """Return the text of (template, values, time)."""
    template, values, now = request
    _clock.now = datetime.datetime(*now)
    try:
        text: str = _compiled(template).render(**values)
    except jinja2.exceptions.TemplateSyntaxError as error:
        raise TemplateError(f"line {error.lineno}: {error.message}") from error
    except jinja2.exceptions.TemplateError as error:
        raise TemplateError(error) from error
    if len(text) > MAX_TEXT:
        raise TemplateError(f"more than {MAX_TEXT:,} characters")
    return text
