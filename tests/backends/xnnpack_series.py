"""Which series of backends/xnnpack/third_party the linked XNNPACK has: `info` names it."""

import pytest

from executorch_c import Runtime
from tests.backends.xnnpack_graphs import Graph


def engine() -> str:
    """Return the backend's name of what runs a delegate; empty without XnnpackBackend."""
    graph = Graph()
    graph.unary("Abs", graph.input((1,)), graph.output((1,)))
    (method,) = Runtime.get().load_program(graph.program()).info()["methods"]
    return method["delegates"][0]["engine"] or ""


ENGINE = engine()
HAS_SPEED = bool(ENGINE) and "," not in ENGINE
"""Whether it has all patches; others are named after a comma."""
needs_xnnpack = pytest.mark.skipif(not ENGINE, reason="built without XNNPACK")
needs_speed = pytest.mark.skipif(not HAS_SPEED, reason="XNNPACK without the series for speed")
