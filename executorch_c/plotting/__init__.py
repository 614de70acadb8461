"""Pictures of outputs and programs by matplotlib (extra `view`).

    from executorch_c import plotting

    plotting.error_map(actual, expected)            # a Figure: where the error is
    plotting.scatter(actual, expected, ax=axes)     # in axes of yours

Reports draw theirs by `report.plot(kind)`. Every function draws into `ax`, or a new figure, and
returns the Figure, which notebooks show without pyplot; `figure.savefig` writes it. Logarithmic
axes show zeros apart, and all axes of errors infinity and NaN. Raises ImportError without
matplotlib.
"""

from executorch_c.plotting.calls import Span, timeline
from executorch_c.plotting.nodes import node_errors, sqnr
from executorch_c.plotting.outputs import error_hist, error_map, output, scatter, value_hist

__all__ = [
    "Span",
    "error_hist",
    "error_map",
    "node_errors",
    "output",
    "scatter",
    "sqnr",
    "timeline",
    "value_hist",
]

for _public in (
    Span,
    error_hist,
    error_map,
    node_errors,
    output,
    scatter,
    sqnr,
    timeline,
    value_hist,
):
    _public.__module__ = __name__
