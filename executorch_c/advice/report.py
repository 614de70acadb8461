"""The report of `advise`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c.advice.programs import Made
    from executorch_c.advice.simulation import Layer

HEAD = ("program", "layers in float", "reached", "SQNR dB", "time", "size")
LAYER_HEAD = ("layer in float", "operators")


@dataclass(frozen=True)
class Advice(JudgedReport["Made"]):
    """The layers to keep in float, and the programs: iterates over these.

    `print(report)` shows both, and the configuration of the quantiser as code.
    """

    title: str
    flow: str
    target: tuple[str, ...]
    """Requirements, such as "sqnr_db>=30"."""
    layers: tuple[Layer, ...]
    """All layers that the flow quantises."""
    in_float: tuple[str, ...]
    """Names of the modules to keep in float."""
    programs: tuple[Made, ...]
    """All quantised, advised (unless all quantised reaches the target), and float."""
    code: str
    """Code that makes the quantiser, as `quantizer`."""
    notes: tuple[str, ...] = ()

    ROWS: ClassVar[str] = "programs"

    @property
    def advised(self) -> Made:
        """The program with the layers in float."""
        return self.programs[-2]

    @property
    def verdict(self) -> Literal["match", "differ"]:
        """ "match" if the advised program reaches the target."""
        return "match" if self.advised.reached.ok else "differ"

    def summary(self) -> str:
        """Return how many layers stay in float for which target, and what the program reaches."""
        target, result = ", ".join(self.target), self.advised.reached.text()
        of = f"{self.advised.count:,} of {_text.plural(len(self.layers), 'layer')}"
        if not self.ok:
            return f"{target} is not reached: {result} with {of} in float, the best one"
        if not self.in_float:
            return f"{target} is reached with all layers quantised: {result}"
        return f"keep {of} in float for {target}: {result}; {self._before()}"

    def _before(self) -> str:
        return f"{self.programs[0].reached.text()} with all quantised"

    def _cells(self) -> Iterator[list[str]]:
        for one in self.programs:
            yield [
                one.name,
                f"{one.count:,}",
                one.reached.text() + ("" if one.reached.ok else " (missed)"),
                f"{one.reached.sqnr_db:.1f}",
                "" if one.seconds is None else _text.seconds(one.seconds),
                _text.size(len(one.data)),
            ]

    def _layer_cells(self) -> list[list[str]]:
        known = {layer.name: layer for layer in self.layers}
        return [[name or "(model)", ", ".join(known[name].operators)] for name in self.in_float]

    def table(self) -> str:
        """Return the programs, and the layers in float, as text."""
        width = _text.width()
        tables = [_text.table(self._cells(), HEAD, width=width, optional=("SQNR dB",))]
        if self.in_float:
            tables.append(_text.table(self._layer_cells(), LAYER_HEAD, width=width))
        return "\n\n".join(tables)

    def __str__(self) -> str:
        head = f"{self.title}, flow {self.flow}"
        code = f"quantiser:\n\n{self.code}" if self.in_float else ""
        parts = [_text.wrapped(f"{head}: {self.summary()}"), self.table(), code, *self.notes]
        return "\n\n".join(filter(None, parts))

    def __repr__(self) -> str:
        return f"<executorch_c.devtools.Advice: {self.summary()}>"

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each program: times in seconds, sizes in bytes."""
        return [one.as_dict() for one in self.programs]

    def as_dict(self) -> dict[str, Any]:
        """Return the advice for JSON: layers in float, programs, and the quantiser's code."""
        return {
            "title": self.title,
            "flow": self.flow,
            "target": [*self.target],
            "verdict": self.verdict,
            "summary": self.summary(),
            "layers": [layer.name for layer in self.layers],
            "in_float": [*self.in_float],
            "programs": self.rows_as_dicts(),
            "code": self.code,
            "notes": [*self.notes],
        }

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Layers of {self.title} in float"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield self._html_table(HEAD, [*self._cells()], "Programs")
        if self.in_float:
            yield self._html_table(LAYER_HEAD, self._layer_cells(), "Layers in float")
        yield _html.tag("pre", self.code)

    @staticmethod
    def _html_table(
        head: Sequence[str], cells: Sequence[Sequence[object]], caption: str
    ) -> _html.Markup:
        return _html.table(caption, head, [[*row] for row in cells], 1)

    def _repr_html_(self) -> str:
        return self._html_table(HEAD, [*self._cells()], self.summary())
