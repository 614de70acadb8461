"""The page of `blame`: eager, edge, the program and the device in step.

The device's graph is the program's, coloured by what the device has computed; the program's is
coloured by its own errors. Overlays of one name colour both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from executorch_c._programs import ProgramFile
from executorch_c._render.page.data import MAX_NODES
from executorch_c._render.page.model import GraphPage, GraphView, Link, Overlay
from executorch_c.debug.pages import VERDICTS
from executorch_c.inspect import families
from executorch_c.inspect.diagram.draw import graph
from executorch_c.inspect.diagram.view import view_of
from executorch_c.inspect.events import placed

if TYPE_CHECKING:
    from executorch_c.blame.report import BlameReport, BlameRow
    from executorch_c.inspect.events import EventPlaces

DEVICE = "device"
"""Name of the device's view."""
ALL_VERDICTS = {
    **VERDICTS,
    "inconclusive": "#8a94a0",
    "suspect": "#e08a3c",
    "leaves": "#c81e1e",
}
"""Colours of verdicts on the program's and the device's nodes, from the least to the most
important."""


@dataclass(frozen=True)
class Places:
    """Places of a report's rows in the program."""

    by_row: Mapping[str, str]
    """Places by ids of rows."""
    suspects: Sequence[str]
    """Places at which a fault of the device may be."""
    seen: EventPlaces
    """Places of these on the graph."""


def draw(report: BlameReport, program: ProgramFile, method: str, places: Places) -> None:
    """Set the graphs of a report; its `payload` has those of eager and of the edge dialect."""

    def make() -> GraphPage:
        page = _payload_page(report, program, method)
        ours = page.views[-1]
        device = GraphView(DEVICE, ours.nodes, ours.note)
        views = [*page.views, device]
        while sum(len(view.nodes) for view in views) > MAX_NODES:
            del views[0]
        known = {view.name for view in views}
        links = [one for one in page.links if {one.first, one.second} <= known]
        links += [replace(one, second=DEVICE) for one in links if one.second == ours.name]
        links.append(Link(ours.name, DEVICE, [(id, id) for id in ours.nodes]))
        own = [
            *_here(report.rows, places.by_row, ours.name, bool(page.overlays)),
            *_on_device(report.rows, places.by_row, places.suspects),
        ]
        overlays = [one for one in page.overlays if one.view in known]
        overlays += placed(own, places.seen.on(ours.nodes.values()))
        return GraphPage(
            report.heading(),
            tuple(views),
            tuple(_with_verdicts([one for one in overlays if one.values])),
            tuple(links),
            families.COLOURS,
            "verdict",
        )

    report.set_graph(make)


def _payload_page(report: BlameReport, program: ProgramFile, method: str) -> GraphPage:
    """Return the page of `explain` on the payload; without a model the program's graph alone."""
    page = None if report.payload is None else report.payload.graph_page()
    if page is None:
        picture = graph(program, method)
        view = view_of(picture.title(), picture.nodes, MAX_NODES // 2)
        page = GraphPage(report.heading(), (view,))
    return page


def _here(
    rows: Iterable[BlameRow], places: Mapping[str, str], view: str, is_explained: bool
) -> Iterable[Overlay]:
    """Yield the program's times here, and its errors if `explain` has none."""
    listed = [(places.get(row.where, row.where), row) for row in rows]
    times = {at: row.seconds * 1e6 for at, row in listed if row.seconds is not None}
    yield Overlay("time", "us", times, total="sum", view=view)
    if not is_explained:
        errors = {at: row.here.relative for at, row in listed if row.here is not None}
        yield Overlay("error", "", errors, log=True, view=view)


def _on_device(
    rows: Iterable[BlameRow], places: Mapping[str, str], suspects: Iterable[str]
) -> Iterable[Overlay]:
    """Yield the device's verdicts, errors, limits and times; a node has the worst of its
    results."""
    verdicts: dict[str, float | str] = dict.fromkeys(suspects, "suspect")
    errors: dict[str, float] = {}
    limits: dict[str, float] = {}
    shares: dict[str, float] = {}
    times: dict[str, float] = {}
    order = list(ALL_VERDICTS)
    for row in rows:
        at = places.get(row.where, row.where)
        known = str(verdicts.get(at, row.verdict))
        verdicts[at] = max(known, row.verdict, key=order.index)
        if at not in errors or row.device.relative >= errors[at]:
            errors[at] = row.device.relative
            if row.device.limit is not None:
                limits[at] = row.device.limit
        if row.device.limit:
            shares[at] = max(shares.get(at, 0.0), row.device.relative / row.device.limit)
        if row.device_seconds is not None:
            times[at] = max(times.get(at, 0.0), row.device_seconds * 1e6)
    yield Overlay("verdict", "", verdicts, view=DEVICE)
    yield Overlay("error", "", errors, log=True, view=DEVICE)
    yield Overlay("limit", "", limits, log=True, view=DEVICE)
    yield Overlay("error / limit", "", shares, log=True, view=DEVICE)
    yield Overlay("time", "us", times, total="sum", view=DEVICE)


def _with_verdicts(overlays: Iterable[Overlay]) -> Iterable[Overlay]:
    """Yield overlays; those of verdicts have the verdicts of all views."""
    listed = list(overlays)
    shown = {value for one in listed if one.name == "verdict" for value in one.values.values()}
    categories = tuple((name, colour) for name, colour in ALL_VERDICTS.items() if name in shown)
    for one in listed:
        yield replace(one, categories=categories) if one.name == "verdict" else one
