"""Reports: a common interface for every result, and pages that escape text and begin with the
finding."""

import csv
import hashlib
import html.parser
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error, devtools
from executorch_c._render.html import Markup, page, table, tag
from executorch_c.bundled import BundledProgram
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.debug.quantization import LayerError
from executorch_c.debug.report import ErrorReport, NodeError
from executorch_c.report import Report
from executorch_c.testing import compare
from executorch_c.trace import Trace
from tests.python.digits import DIGITS, EXPECTED, IMAGES

X, Y = IMAGES[:2], EXPECTED[:2]


def traced() -> Trace:
    method = executorch_c.load(DIGITS).load_method("forward")
    with method.tracing() as trace:
        method.execute([X])
    return trace


def recorded() -> Report:
    pytest.importorskip("flatbuffers")
    with tempfile.TemporaryDirectory() as folder:
        traced().to_etdump(Path(folder, "a.etdp"))
        return devtools.read_etdump(Path(folder, "a.etdp"))


def bundled() -> Report:
    cases = {"forward": [([X], [Y])]}
    return BundledProgram(DIGITS.read_bytes(), cases).verify()[0]


def checked() -> Report:
    torch = pytest.importorskip("torch")
    pytest.importorskip("executorch.exir")
    from executorch_c.testing import check_model

    return check_model(torch.tanh, torch.randn(8), n_random=1)


def checked_llm() -> Report:
    pytest.importorskip("executorch.exir")
    from executorch_c.llm import check_llm
    from tests.llm.small_llm import Decoder, ids, program

    return check_llm(Decoder().eval(), [ids(5)], program=program(), cases=["steps"], progress=False)


def lost() -> Report:
    pytest.importorskip("executorch.exir")
    from executorch_c.llm import perplexity
    from tests.llm.small_llm import CONTEXT, ids, program

    return perplexity(program(), ids(CONTEXT), progress=False)


def costs() -> Report:
    torch = pytest.importorskip("torch")
    pytest.importorskip("executorch.exir")
    from executorch_c.llm import quantization_cost
    from tests.llm.small_llm import Decoder, ids, program

    model, other = Decoder().eval(), Decoder().eval()
    with torch.no_grad():
        other.down.weight.mul_(1.01)
    return quantization_cost(model, [ids(5)], quantized=other, program=program(), progress=False)


def node(name: str, error: float, kind: type[NodeError] = NodeError) -> NodeError:
    size = ErrorMetrics(8, int(error > 0), error, error, (0, 0), (0, 0))
    verdict: Any = "source" if error else "ok"
    return kind(0, "instruction 0", name, (8,), "float32", size, size, verdict)


REPORTS: dict[str, Callable[[], Report]] = {
    "compare": lambda: compare(Y, Y),
    "a difference": lambda: compare(Y + 1, Y),
    "check": checked,
    "explain": lambda: ErrorReport("<title>", (node("<good>", 0.0), node("<bad>", 1.0))),
    "programs": lambda: devtools.compare_programs(DIGITS, DIGITS, [X]),
    "quantization": lambda: devtools.QuantizationReport("title", (node("layer", 0.0, LayerError),)),
    "nonfinite": lambda: devtools.check_nan(DIGITS, [X * np.inf]),
    "memory": lambda: devtools.memory_plan(DIGITS),
    "graph": lambda: devtools.graph(DIGITS),
    "dump": lambda: devtools.dump(DIGITS),
    "trace": traced,
    "etdump": recorded,
    "bundled": bundled,
    "llm": checked_llm,
    "perplexity": lost,
    "cost": costs,
}


def test_control_characters_are_shown() -> None:
    """Names of a file may hold codes of a terminal, and marks that reverse the text after them."""
    element = tag("p", "a\x1b[2J\u202e<b>\nc", title="\x07")
    [problem] = compare({"a\x1b[2J": np.ones(2)}, {"a\x1b[2J": np.ones(3)}).problems()
    assert r"a\x1b[2J" in problem
    assert element == r'<p title="\x07">a\x1b[2J\u202e&lt;b&gt;' + "\nc</p>"


class Reader(html.parser.HTMLParser):
    """A parser that fails if elements are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "br", "img", "path", "polygon", "polyline", "ellipse"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", REPORTS)
def test_every_result_is_a_report(name: str, tmp_path: Path) -> None:
    report = REPORTS[name]()
    assert isinstance(report, Report) and isinstance(report.ok, bool)
    assert report.summary() and isinstance(report.table(), str)
    assert report.ok is (name not in ("a difference", "explain", "nonfinite"))
    assert isinstance(json.loads(report.to_json()), dict)
    rows = report.rows_as_dicts()
    assert rows and len(pytest.importorskip("pandas").DataFrame(rows)) == len(rows)
    assert len(report.to_dataframe()) == len(rows)
    for ending in (".html", ".csv", ".txt"):
        report.save(tmp_path / f"report{ending}")
    assert len(list(csv.reader((tmp_path / "report.csv").open(newline="")))) == len(rows) + 1
    if name != "graph":  # whose .json is for Model Explorer
        report.save(tmp_path / "report.json")
        assert (tmp_path / "report.json").read_text() == report.to_json()
    assert (tmp_path / "report.txt").read_text() == f"{report}\n"
    text = (tmp_path / "report.html").read_text()
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    finding = text.index("</h1>")
    assert text[finding + 5 :].lstrip().startswith('<p><span class="')
    with pytest.raises(ValueError, match=r"\.html"):
        report.save(tmp_path / "report.xyz")


def test_pages_end_with_the_origin() -> None:
    digest = hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    for source, name in ((DIGITS, str(DIGITS)), (DIGITS.read_bytes(), "")):
        text = devtools.memory_plan(source).to_html()
        assert digest in text and name in text and "host" in text and "date" in text
        assert f"executorch_c {executorch_c.__version__}" in text
    text = devtools.compare_programs(DIGITS, DIGITS.read_bytes(), [X]).to_html()
    assert text.count(digest) == 2 and "About this baseline" in text


def test_text_is_escaped_wherever_it_is_put() -> None:
    assert tag("p", "a < b", Markup("<br>"), title='"') == '<p title="&quot;">a &lt; b<br></p>'
    text = table("<c>", ["<h>", "verdict"], [["<x>", "differ"]], 1)
    assert "<c>" not in text and "<h>" not in text and "<x>" not in text
    assert '<span class="bad">differ</span>' in text
    assert "&lt;t&gt;" in page("<t>", "<s>") and "<s>" not in page("<t>", "<s>")
    report = REPORTS["explain"]()
    assert "<bad>" not in report.to_html() and "<title></title>" not in report.to_html()


def test_pages_and_dumps() -> None:
    text = REPORTS["explain"]().to_html()
    assert text.index("first divergence") < text.index("nodes out of tolerance")
    assert text.index("nodes out of tolerance") < text.index("all nodes")
    assert "addEventListener" in text and "search" in text
    assert not devtools.dump(DIGITS).problems()
    with pytest.raises(Error):
        devtools.dump(b"\0" * 64)
