"""Pages with graphs in headless Chromium; skipped where it is not installed."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from executorch_c._render.page import document
from executorch_c._render.page.model import GraphPage, GraphView, Link, Overlay
from executorch_c.devtools import graph, memory_plan
from executorch_c.inspect import families
from executorch_c.inspect.diagram.view import view_of
from tests import browser
from tests.browser import Browser
from tests.inspect import page_graphs
from tests.inspect.page_graphs import by_id, node
from tests.python.digits import DIGITS

pytestmark = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())
WAIT_SECONDS = 20
MOST_SHAPES = 6000
"""Boxes and edges of a frame; Chromium without a GPU draws them in less than 16 ms."""
DARK = "22,25,29"
"""The background in the dark scheme."""
GRAPH = """
const page = document.querySelector('.graph').graphPage, pane = page.panes[0], {view} = pane;
"""
LEAVES = "const leaves = view.shown.filter(box => box < view.n);"
COLOURS = """
const copy = document.createElement('canvas');
copy.width = pane.canvas.width;
copy.height = pane.canvas.height;
const context = copy.getContext('2d', {willReadFrequently: true});
context.drawImage(pane.canvas, 0, 0);
const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
const seen = new Set();
for (let i = 0; i < pixels.length; i += 4) seen.add(pixels.slice(i, i + 3).join());
return [...seen];
"""


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with Browser() as window:
        yield window


@pytest.fixture(autouse=True)
def plain(window: Browser) -> Iterator[None]:
    """Each test begins with a wide light window, and ends without a message of the console."""
    window.resize(1280, 900)
    window.prefer("light")
    yield
    assert window.errors() == []


def shown(window: Browser, tmp_path: Path, page: GraphPage) -> None:
    file = tmp_path / "page.html"
    file.write_text(document.render(page), encoding="utf-8")
    window.open(file)
    painted(window)


def painted(window: Browser) -> None:
    """Wait until all panes are painted."""
    end = time.monotonic() + WAIT_SECONDS
    script = GRAPH + "return page.shownPanes().every(one => one.width && !one.dirty)"
    while not window.run(script):
        assert time.monotonic() < end, "not painted"
        time.sleep(0.01)


def ask(window: Browser, script: str) -> Any:
    return window.run(GRAPH + script)


def chain(count: int = 6, groups: int = 2) -> dict:
    """Return a chain in delegates: 0 .. 2 in the first, 3 .. 5 in the second."""
    nodes = by_id(*(node(f"n{i}", f"op{i}", *([f"n{i - 1}"] if i else [])) for i in range(count)))
    for i, one in enumerate(nodes.values()):
        one.groups = (f"B {i * groups // count}",)
    return nodes


def page_of(nodes: dict, *overlays: Overlay) -> GraphPage:
    view = view_of("graph", nodes)
    return GraphPage("page", (view,), overlays, colours=families.COLOURS)


def test_a_program(window: Browser, tmp_path: Path) -> None:
    """All nodes are visible, rows go down, boxes hold their nodes, and nothing is loaded."""
    graph(DIGITS, overlays=[memory_plan(DIGITS)]).save(tmp_path / "d.html")
    window.open(tmp_path / "d.html")
    painted(window)
    assert ask(window, LEAVES + "return leaves.length") == len(graph(DIGITS).nodes)
    assert ask(window, "return view.edges.every(({a, b}) => view.y[a] + view.h[a] < view.y[b])")
    inside = """return view.shown.every(box => {
      const g = view.n + view.parent[box];
      return view.x[box] >= view.x[g] && view.x[box] + view.w[box] <= view.x[g] + view.w[g] &&
             view.y[box] >= view.y[g] && view.y[box] + view.h[box] <= view.y[g] + view.h[g];
    })"""
    assert ask(window, inside)
    assert window.run("return performance.getEntriesByType('resource').length") == 0
    assert len(ask(window, COLOURS)) > 10


def test_boxes_do_not_overlap(window: Browser, tmp_path: Path) -> None:
    shown(window, tmp_path, page_of(page_graphs.random_graph(300, 4, 12)))
    ask(window, "pane.openAll(true)")
    overlapping = """
    return leaves.flatMap((a, i) => leaves.slice(i + 1).filter(b =>
      view.x[a] < view.x[b] + view.w[b] && view.x[b] < view.x[a] + view.w[a] &&
      view.y[a] < view.y[b] + view.h[b] && view.y[b] < view.y[a] + view.h[a])).length"""
    assert ask(window, LEAVES + overlapping) == 0
    assert ask(window, LEAVES + "return leaves.length") == 300


def test_keyboard(window: Browser, tmp_path: Path) -> None:
    """Arrows walk along edges; Enter opens and closes; / searches; Escape clears."""
    shown(window, tmp_path, page_of(chain()))
    ask(window, "pane.canvas.focus()")
    selected = """
    return [...view.ids, ...view.groups.map(group => group.name)][pane.selected] || ''"""
    window.press("ArrowDown", "ArrowDown", "ArrowDown")
    assert ask(window, selected) == "n2"
    window.press("ArrowUp")
    assert ask(window, selected) == "n1"
    assert "op1" in ask(window, "return page.panel.textContent")
    window.press("\ue003")  # Backspace closes the box around
    assert (
        ask(window, selected) == "B 0" and ask(window, "return pane.isOpen(pane.selected)") is False
    )
    window.press("Enter")
    assert ask(window, "return pane.isOpen(pane.selected)") is True
    before = ask(window, "return pane.scale")
    window.press("+")
    assert ask(window, "return pane.scale") > before
    window.press("/", "o", "p", "4", "Enter")
    assert ask(window, "return page.count.textContent") == "1 of 1"
    assert ask(window, selected) == "n4"
    window.press("Escape", "Escape")
    assert ask(window, "return page.search.value") == "" and ask(window, selected) == ""


def test_search_opens_what_it_finds(window: Browser, tmp_path: Path) -> None:
    shown(window, tmp_path, page_of(chain(60, 3)))
    ask(window, "pane.openAll(false)")
    assert ask(window, "return pane.view.shown.length") == 3
    ask(window, "page.find('op31'); page.next(1)")
    assert ask(window, "return pane.view.ids[pane.selected]") == "n31"
    assert ask(window, "return [0, 1, 2].map(i => pane.view.groups[i + 1].open)") == [
        *(False, True, False)
    ]


def test_pointer(window: Browser, tmp_path: Path) -> None:
    """A click selects a node, a click on a head closes its box, a drag moves, the wheel zooms."""
    shown(window, tmp_path, page_of(chain()))
    middle = """const edge = pane.canvas.getBoundingClientRect(), at = i => Math.round(i);
    const box = %s, {scale} = pane;
    return [at(edge.left + pane.left + (view.x[box] + view.w[box] / 2) * scale),
            at(edge.top + pane.top + (view.y[box] + %s) * scale)]"""
    window.click(*ask(window, middle % (1, "view.h[box] / 2")))
    assert ask(window, "return pane.selected") == 1
    window.click(*ask(window, middle % ("pane.view.n + 2", "10")))
    assert ask(window, "return pane.view.groups[2].open") is False
    before = ask(window, "return [pane.left, pane.top]")
    move = {"type": "pointerMove", "x": 300, "y": 700, "duration": 0}
    window.pointer(
        move,
        {"type": "pointerDown", "button": 0},
        {**move, "x": 340, "y": 720},
        {"type": "pointerUp", "button": 0},
    )
    assert ask(window, "return [pane.left, pane.top]") == [before[0] + 40, before[1] + 20]


def test_colours_of_values(window: Browser, tmp_path: Path) -> None:
    """The largest value has the strongest colour; boxes have sums; NaN is shown as such."""
    values = {f"n{i}": float(i) for i in range(5)} | {"n5": float("nan")}
    shown(window, tmp_path, page_of(chain(), Overlay("time", "us", values, total="sum")))
    ask(window, "page.colourBy('time')")
    assert ask(window, "return pane.page.colour(pane, 4)") == ask(window, "return page.theme.high")
    assert ask(window, "return pane.page.colour(pane, 0)") == ask(window, "return page.theme.low")
    assert ask(window, "page.choose(pane, pane.view.n + 1); return page.panel.innerText").count(
        "3 us"
    )
    ask(window, "page.choose(pane, -1)")
    listed = ask(
        window, "return [...page.panel.querySelectorAll('li')].map(one => one.textContent)"
    )
    assert listed[:2] == ["NaN usop5 n5", "4 usop4 n4"]
    assert ask(window, "return page.legend.innerText").split("\n")[-1] == "4 us"


def test_views_in_step(window: Browser, tmp_path: Path) -> None:
    """Selecting a node selects what corresponds, inside a closed box too; narrow: one pane."""
    first, second = chain(), chain()
    views = GraphView("eager", first), GraphView("program", second)
    link = Link("eager", "program", [(f"n{i}", f"n{5 - i}") for i in range(5)])
    status = Overlay("change", "", {"n1": "b"}, categories=(("a", "#00ff00"), ("b", "#ff0000")))
    page = GraphPage("two", views, (status,), (link,), families.COLOURS, "change")
    shown(window, tmp_path, page)
    ask(window, "page.panes[1].openAll(false); page.choose(pane, 1, true)")
    assert ask(window, "return page.panes[1].selected") == 4
    assert "corresponds to (1)" in ask(window, "return page.panel.textContent")
    ask(window, "page.choose(pane, 5)")
    assert ask(window, "return page.panes[1].selected") == -1
    assert ask(window, "return pane.page.colour(pane, 1)") == "#ff6666"
    window.resize(390, 800)
    window.open(tmp_path / "page.html")
    painted(window)
    assert ask(window, "return page.shownPanes().map(one => one.view.name)") == ["program"]
    ask(window, "page.search.focus()")
    window.press("Escape", "ArrowDown")
    assert ask(window, "return page.panes.map(one => one.selected)") == [-1, 0]
    ask(window, "page.tabButtons[0].click()")
    assert ask(window, "return page.shownPanes().map(one => one.view.name)") == ["eager"]


def test_dark(window: Browser, tmp_path: Path) -> None:
    """The scheme is followed at once; text is readable on every box."""
    shown(window, tmp_path, page_of(chain()))
    assert DARK not in ask(window, COLOURS)
    window.prefer("dark")
    painted(window)
    time.sleep(0.05)
    painted(window)
    assert DARK in ask(window, COLOURS)
    contrasts = """
    return Object.keys(page.colours).map(name => {
      pane.view.kinds[0] = name;
      page.cache.clear();
      return [page.contrastOf(page.colour(pane, 0)), name];
    });"""
    for scheme in ("dark", "light"):
        window.prefer(scheme)
        painted(window)
        ask(window, "page.readTheme()")
        assert min(ask(window, contrasts)) > [4.5, ""], scheme


def test_boxes_by_kind(window: Browser, tmp_path: Path) -> None:
    """Delegates, layers and operators between quantisations have a colour of their own."""
    nodes = by_id(
        node("q", "quantize_per_tensor"),
        node("d", "dequantize_per_tensor", "q"),
        node("c", "conv", "d"),
        node("r", "quantize_per_tensor", "c"),
        node("e", "add", "r"),
        node("f", "add", "e"),
    )
    nodes["e"].groups = nodes["f"].groups = ("B 0",)
    for id in "qdc":
        nodes[id].module = "body"
    shown(window, tmp_path, page_of(nodes))
    kinds = "return view.groups.slice(1).map(group => [group.kind, group.name])"
    assert sorted(ask(window, kinds)) == [
        *(["delegate", "B 0"], ["module", "body"], ["quantized", "conv, quantised"])
    ]
    fills = {"246,236,214", "245,246,248", "252,245,244"}
    assert fills <= set(ask(window, COLOURS))


@pytest.mark.parametrize("kind", ["document", "report"])
def test_narrow(window: Browser, tmp_path: Path, kind: str) -> None:
    """At 390 px nothing is wider than the window, and the canvas has room."""
    window.resize(390, 800)
    report = graph(DIGITS) if kind == "document" else memory_plan(DIGITS)
    report.to_html(tmp_path / "n.html")
    window.open(tmp_path / "n.html")
    painted(window)
    assert window.run("return document.documentElement.scrollWidth") <= 390
    width, height = ask(window, "return [pane.width, pane.height]")
    assert width > 340 and height > 200
    ends = """return [...document.querySelectorAll('.graph-bar > *, .graph-panel')].flatMap(one => {
      const edge = one.getBoundingClientRect();
      return [edge.left, edge.right];
    });"""
    assert all(0 <= end <= 390 for end in window.run(ends))
    if kind == "report":  # a table sorts by keyboard, too
        window.run("document.querySelector('th[tabindex]').focus()")
        window.press("Enter")
        sort = "return document.querySelector('th[tabindex]').getAttribute('aria-sort')"
        assert window.run(sort) == "ascending"


def test_hostile_names(window: Browser, tmp_path: Path) -> None:
    """They are text everywhere; the policy refuses a script that is put in, and any address."""
    page = replace(page_of(page_graphs.hostile()), title=page_graphs.HOSTILE[0])
    shown(window, tmp_path, page)
    for box in range(len(page_graphs.HOSTILE)):
        ask(window, f"page.choose(pane, {box}, true)")
    ask(window, "page.find('script'); page.next(1)")
    assert window.run("return window.broken") is None
    assert window.run("return document.querySelectorAll('script').length") == 3
    assert window.run("return document.title") == page_graphs.HOSTILE[0]
    window.run(
        """const one = document.createElement('script'), image = new Image();
        one.textContent = 'window.broken = 2';
        image.src = 'https://example.org/x';
        document.body.append(one, image);
        document.body.insertAdjacentHTML('beforeend', '<b onclick="window.broken = 3">x</b>');
        document.body.lastChild.click();"""
    )
    assert window.run("return window.broken") is None
    refusals = window.errors()
    assert len(refusals) == 3 and all("Content Security Policy" in one for one in refusals)


def test_a_box_that_is_too_small(window: Browser, tmp_path: Path) -> None:
    """An open box far away is one rectangle: a click selects it, another zooms in."""
    shown(window, tmp_path, page_of(chain(60, 3)))
    ask(window, "pane.openAll(true); page.choose(pane, 5); pane.scale = .01; pane.paint()")
    painted(window)
    assert ask(window, "return pane.level.boxes.length") == 3
    middle = """const edge = pane.canvas.getBoundingClientRect(), box = view.n + 2;
    return [Math.round(edge.left + pane.left + (view.x[box] + view.w[box] / 2) * pane.scale),
            Math.round(edge.top + pane.top + (view.y[box] + view.h[box] / 2) * pane.scale)]"""
    for _ in range(2):
        window.click(*ask(window, middle))
        assert ask(window, "return pane.selected - view.n") == 2
        painted(window)
    assert ask(window, "return pane.isFolded(view.n + 2)") is False
    assert ask(window, "return pane.isOpen(view.n + 2)") is True


@pytest.mark.parametrize("layers", [120, pytest.param(0, marks=pytest.mark.heavy)])
def test_20_000_nodes(window: Browser, tmp_path: Path, layers: int) -> None:
    """The page is below 5 MB and opens folded. With all boxes open each node is drawn at some
    scale, and a frame has at most MOST_SHAPES, wherever the window is and however far away."""
    nodes = page_graphs.random_graph(20_000, 5, layers)
    times = {id: float(i) for i, id in enumerate(nodes)}
    shown(window, tmp_path, page_of(nodes, Overlay("time", "us", times, total="sum")))
    assert (tmp_path / "page.html").stat().st_size < 5e6
    assert 20 < ask(window, "return pane.view.shown.length") < 400
    assert ask(window, "pane.openAll(true);" + LEAVES + "return leaves.length") == 20_000
    painted(window)
    assert ask(window, "return pane.scale * pane.view.h[pane.view.n] < pane.height")
    assert len(ask(window, COLOURS)) > 10
    ask(window, "page.colourBy('time')")
    path = """
    const drawn = [], seen = new Set();
    for (let step = 0; pane.scale < 1.5; step++) {
      pane.left += 200 * Math.cos(step);
      pane.top += 200 * Math.sin(step);
      pane.draw();
      drawn.push(pane.drawn);
      for (const box of pane.level.boxes) seen.add(box);
      pane.zoom(1.2);
    }
    const leaves = [...seen].filter(box => box < view.n).length;
    return [drawn.length, Math.min(...drawn), Math.max(...drawn), leaves];"""
    steps, least, most, leaves = ask(window, path)
    assert steps > 20 and 0 < least and most <= MOST_SHAPES and leaves == 20_000
