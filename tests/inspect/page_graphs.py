"""Graphs for tests of pages, without programs: chains, random ones, names that try to break out."""

import random

from executorch_c._render.page.model import Node

HOSTILE = (
    "</script><script>window.broken=1</script>",
    '"><img src=x onerror="window.broken=1">',
    "\u202egnp.exe\u2066",
    "<!--<script>",
    "\x00\x1b[31m\u2028",
    "x" * 10_000,
    "{{constructor}}${1}",
)


def node(id: str, label: str, *reads: str, groups: tuple[str, ...] = (), **attributes: str) -> Node:
    """Return a node that reads the first outputs of others."""
    one = Node(id, label, "pointwise", groups, attributes, ["float32 (2, 3)"], place=f"at {id}")
    for number, source in enumerate(reads):
        one.read({(source, 0)}, f"x{number}")
    return one


def by_id(*nodes: Node) -> dict[str, Node]:
    return {one.id: one for one in nodes}


def random_graph(count: int, seed: int, layers: int = 0, far: float = 0.05) -> dict[str, Node]:
    """Return a graph whose nodes read nodes before them, mostly near ones; `layers` have names."""
    rng = random.Random(seed)
    nodes: dict[str, Node] = {}
    for i in range(count):
        reads = {i - 1, i - 1 - rng.randrange(i if rng.random() < far else min(i, 30))} if i else ()
        one = node(f"0:{i}", rng.choice(("add", "relu", "mul")), *(f"0:{j}" for j in sorted(reads)))
        if layers:
            one.module = f"layers.{i * layers // count}.{'ab'[i % 7 // 4]}"
        nodes[one.id] = one
    return nodes


def hostile() -> dict[str, Node]:
    """Return a graph with a hostile text as each label, name, shape and attribute."""
    nodes = [
        node(
            f"{i} {text}", text, *([f"0 {HOSTILE[0]}"] if i else []), groups=(text,), **{text: text}
        )
        for i, text in enumerate(HOSTILE)
    ]
    for one, text in zip(nodes, HOSTILE):
        one.outputs[0] = one.module = text
    return by_id(*nodes)
