"""Chats: a conversation of messages by the tokenizer's own chat template.

    chat = Chat(runner, system="You are brief.")
    for piece in chat.stream("What is a tuple?"):
        print(piece, end="")
    print(chat.send("And a list?"))

Only what the caches do not have yet is prefilled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from executorch_c.llm import _templates

if TYPE_CHECKING:
    from executorch_c.llm.generation import Stream
    from executorch_c.llm.result import Generation
    from executorch_c.llm.runner import TextRunner

Message = Mapping[str, Any]
"""{"role": "user", "content": "..."}"""


def template_of(tokenizer: object, name: str = "default") -> str:
    """Return the chat template of a tokenizer. Raises ValueError if it has none."""
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, list):
        named = {row.get("name"): row.get("template") for row in template if isinstance(row, dict)}
        template = named.get(name) or next(iter(named.values()), None)
    if isinstance(template, dict):
        template = template.get(name) or next(iter(template.values()), None)
    if not isinstance(template, str):
        raise ValueError(
            "the tokenizer has no chat_template (tokenizer_config.json or "
            "chat_template.jinja next to tokenizer.json): pass `template`"
        )
    return template


def render(
    template: str, messages: Sequence[Message], *, add_generation_prompt: bool = True, **values: Any
) -> str:
    """Return the text of messages by a chat template: Jinja2's sandbox as transformers uses it, in
    a process with limits, which the first call starts.

    Args:
        template: The template.
        messages: {"role": ..., "content": ...} each.
        add_generation_prompt: End with the beginning of the assistant's message.
        values: Other variables: bos_token, eos_token, tools, documents, enable_thinking. Texts,
            numbers, lists and dicts.

    Raises ValueError for a wrong template, for messages that it refuses, and for one that needs
    more than 5 s of processor time, 512 MB or 16 million characters; ImportError without jinja2
    (extra `llm`).
    """
    messages = [dict(message) for message in messages]
    return _templates.render(
        template,
        {"messages": messages, "add_generation_prompt": add_generation_prompt, **values},
    )


def token_text(runner: TextRunner, id: int | None) -> str:
    """Return the text of a special token; empty without one."""
    text_of: Any = getattr(runner.tokenizer, "text_of", None)
    return "" if id is None or text_of is None else str(text_of(id))


class Chat:
    """A conversation with a runner.

    Args:
        runner: A TextRunner with a tokenizer.
        system: The system message, if any.
        template: A chat template. Default: the tokenizer's.
        values: Further variables of the template.
        options: Defaults of `TextRunner.stream`: temperature, max_new_tokens, ...

    Raises ValueError without a tokenizer or a template.
    """

    def __init__(
        self,
        runner: TextRunner,
        system: str | None = None,
        *,
        template: str | None = None,
        values: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if runner.tokenizer is None:
            raise ValueError(
                "`runner` has no tokenizer: pass it one, TextRunner(program, tokenizer=...)"
            )
        self.runner, self.options = runner, options
        self.template = template_of(runner.tokenizer) if template is None else template
        eos = runner.eos_ids[0] if runner.eos_ids else None
        self.values = {
            "bos_token": token_text(runner, runner.special.bos_id),
            "eos_token": token_text(runner, eos),
            **(values or {}),
        }
        self.messages: list[dict[str, Any]] = []
        """All messages, the assistant's included."""
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        self.last: Generation | None = None
        """The last answer."""

    def prompt(self) -> list[int]:
        """Return the tokens of all messages, and of the beginning of an answer."""
        text = render(self.template, self.messages, **self.values)
        assert self.runner.tokenizer is not None
        begins = bool(self.values["bos_token"]) and text.startswith(self.values["bos_token"])
        return self.runner.tokenizer.encode(text, False if begins else None)

    def _keep_common(self, ids: Sequence[int]) -> list[int]:
        """Rewind to what the caches and a prompt have in common; return the rest of it."""
        runner = self.runner
        known = [*runner.ids, *runner.pending]
        same = next((i for i, (a, b) in enumerate(zip(known, ids)) if a != b), None)
        same = min(len(known), len(ids)) if same is None else same
        if same >= len(known) and same < len(ids):
            return list(ids[same:])  # sampled tokens that are pending go first
        same = min(same, len(ids) - 1, runner.position)
        try:
            runner.rewind(same)
        except RuntimeError:  # state that cannot go back
            same = 0
            runner.reset()
        return list(ids[same:])

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """Send a message and yield the pieces of the answer, which is added to `messages` at the
        end."""
        self.messages.append({"role": "user", "content": text})
        try:
            rest = self._keep_common(self.prompt())
            stream: Stream = self.runner.stream(rest, **{**self.options, **options})
        except BaseException:
            self.messages.pop()
            raise
        return self._answer(stream)

    def _answer(self, stream: Stream) -> Iterator[str]:
        try:
            yield from stream
        finally:
            stream.close()
            self.last = stream.result
            self.messages.append({"role": "assistant", "content": stream.result.text})

    def send(self, text: str, **options: Any) -> str:
        """Send a message and return the answer. Exceptions as for `TextRunner.generate`."""
        with self.runner._session.lock:
            for _ in self.stream(text, **options):
                pass
            assert self.last is not None
            return self.last.text

    def reset(self) -> None:
        """Forget all messages but the system's."""
        self.messages = [m for m in self.messages if m["role"] == "system"]
        self.runner.reset()
