"""The result of `cut`: the part that shows a fault, and its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.report import Report

OfficialVerdict: TypeAlias = Literal["match", "differ", "inconclusive", "error", "not run"]


@dataclass(frozen=True)
class Cut(Report):
    """A part of a program that shows its fault. Prints as a few lines; `ok` is True if there is
    one."""

    folder: str | None
    """The folder with its files; None if no part shows the fault."""
    source: str
    """The first node of the program that differs."""
    nodes: tuple[str, ...]
    """Operators of the part, in order, without quantisation."""
    whole: int
    """Number of operators of the model's graph."""
    samples: tuple[str, ...]
    """The finding of explain for each sample: of the failing call, then of its numbers in another
    order."""
    shown: int
    """Number of samples that show the fault."""
    official: OfficialVerdict
    """The part in the official runtime: "differ" if it has the fault, too."""
    official_about: str = ""
    """Its error, or why it was not run."""
    constants: int = 0
    """Number of bytes, of constants and their keys, that are the program's own: the flow makes
    others."""
    reason: str = ""
    """Reason why there is no part."""
    tried: int = 0
    """Number of parts that were lowered."""
    seconds: float = 0.0
    program: bytes = field(default=b"", repr=False)
    """The part as a .pte."""
    is_own: bool = False
    """True if its nodes are the program's own: the flow makes another program."""

    @property
    def ok(self) -> bool:
        """True if a part shows the fault."""
        return self.folder is not None

    @property
    def size(self) -> int:
        """Number of operators of the part."""
        return len(self.nodes)

    def summary(self) -> str:
        """Return the finding in a sentence or two."""
        if self.folder is None:
            return f"no part shows the fault of {self.source}: {self.reason}"
        text = (
            f"{_text.plural(self.size, 'operator')} of {self.whole} "
            f"{'shows' if self.size == 1 else 'show'} the fault of "
            f"{self.source}, on {self.shown} of {_text.plural(len(self.samples), 'sample')}"
        )
        if self.constants:
            text += (
                f"; {_text.plural(self.constants, 'byte')} are the program's: the flow makes others"
            )
        if self.is_own:
            text += "; the nodes are the program's: the flow makes others"
        return f"{text}; {self._official()}"

    def _official(self) -> str:
        about = f": {self.official_about}" if self.official_about else ""
        return {
            "match": "the official runtime computes it rightly",
            "differ": "the official runtime has the fault, too",
            "inconclusive": "the official runtime's result is inconclusive",
            "error": f"the official runtime fails{about}",
            "not run": f"the official runtime did not run it{about}",
        }[self.official]

    def table(self) -> str:
        """Return the operators and the samples as text."""
        rows = [[str(i), name] for i, name in enumerate(self.nodes)]
        return _text.table(rows, ("", "operator"), width=_text.width(), optional=())

    def __str__(self) -> str:
        lines = [_text.wrapped(self.summary())]
        if self.folder is not None:
            lines += [
                self.table(),
                f"files: {self.folder} (module.py, cut.pte, inputs.npz, repro.py)",
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(_html.lines(_html.tag("b", self.summary()), *self.sections()))

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Cut around {self.source}"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield _html.table("operators", ("", "operator"), list(enumerate(self.nodes)), 2)
        yield _html.table("samples", ("", "explain"), list(enumerate(self.samples)), 2)

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each operator."""
        return [{"index": i, "operator": name} for i, name in enumerate(self.nodes)]

    def as_dict(self) -> dict[str, Any]:
        """Return all fields but the program."""
        names = (
            *("folder", "source", "nodes", "whole", "samples", "shown", "official"),
            *("official_about", "constants", "is_own", "reason", "tried", "seconds"),
        )
        return {"ok": self.ok, "summary": self.summary()} | {n: getattr(self, n) for n in names}
