"""Programs as text and JSON."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("executorch.exir")
import executorch_c
from executorch_c import Runtime, cli
from executorch_c.devtools import dump
from tests.inspect.seen_programs import MAKERS, opened, pte_of
from tests.plans import Plan, build


def lines(name: str) -> list[str]:
    return [line.strip() for line in dump(opened(name)).splitlines()]


def line(name: str, part: str) -> str:
    """Return the only line that contains a text."""
    (match,) = [line for line in lines(name) if part in line]
    return match


@pytest.mark.parametrize("name", MAKERS)
def test_every_instruction_has_a_line(name: str) -> None:
    program = opened(name)
    text = dump(program)
    for method in program.method_names:
        structure = program._structure(method)
        for chain in structure["chains"]:
            for number, row in enumerate(chain):
                start = {"kernel": row["name"], "delegate": f"{row['name']}["}.get(
                    row["kind"], row["kind"]
                )
                assert re.search(rf"^ *>? *{number}  {re.escape(start or '')}", text, re.M)


@pytest.mark.parametrize("name", MAKERS)
def test_json_has_the_whole_structure(name: str) -> None:
    program = opened(name)
    whole = json.loads(dump(program, "json"))
    assert whole["file_size"] == len(pte_of(name))
    assert {m["name"] for m in whole["methods"]} == program.method_names
    for dumped in whole["method_structures"]:
        structure = json.loads(json.dumps(program._structure(dumped["name"]), default=str))
        for key in ("inputs", "outputs", "arenas", "values", "chains"):
            assert dumped[key] == structure[key]
        for i, delegate in enumerate(dumped["delegates"]):
            inside = program._delegate(dumped["name"], i)
            assert delegate["inside"] == json.loads(json.dumps(inside))
            assert delegate["error"] is None


def test_an_instruction_has_all_details() -> None:
    convolution = lines("cnn")[lines("cnn").index("instructions") + 1]
    assert re.fullmatch(
        r"0  aten::convolution.out\(input=%\d+, weight=%\d+ const \(8, 3, 3, 3\), "
        r"bias=%\d+ const \(8,\), stride=\[1, 1\], padding=\[1, 1\], dilation=\[1, 1\], "
        r"transposed=False, output_padding=\[0, 0\], groups=1\) -> "
        r"%\d+ float32 \(1, 8, 14, 14\) arena 1 @ \d+",
        convolution,
    ), convolution


def test_views_without_an_instruction_are_named() -> None:
    """The exporter removes the view: the classifier reads the pooling's result under another
    name."""
    pooled = re.search(r"-> (%\d+) float32 \(1, 8, 7, 7\)", line("cnn", "max_pool2d_with_indices"))
    assert pooled and f"(is {pooled[1]})" in line("cnn", "addmm.out")


def test_stack_traces_point_into_the_model() -> None:
    source = line("cnn", "max_pool2d(x, 2)")
    assert re.search(r"# .*seen_programs.py:\d+ in forward", source)
    assert "#" not in dump(opened("branches"))


def test_jumps() -> None:
    text = dump(opened("branches"))
    conditional = re.findall(r"jump to (\d+) if not %\d+", text)
    always = re.findall(r"jump to (\d+)$", text, re.M)
    assert len(conditional) == len(always) == 2
    instructions = len(opened("branches")._structure("forward")["chains"][0])
    inside = [number for number in conditional + always if int(number) < instructions]
    for number in inside:
        assert re.search(rf"^   > *{number}  ", text, re.M)
    assert len(re.findall(r"^   >", text, re.M)) == len(set(inside))


LINES = {
    "splits": [
        r"aten::cat.out\(tensors=\[%2, %3, %0\], dim=0\)",
        r"aten::split_with_sizes_copy.out.*-> %2 float32 \(2, 3\)",
    ],
    "dynamic": [r"float32 \(<=16, <=4\)"],
    "state": [r"float32 \(4,\)  arena 1 @ \d+, first file @ 0x"],
    "external": [
        r"%0 +float32 \(2, 3\) +external data +24 +linear.weight",
        r"self=%0 const linear.weight \(2, 3\)",
    ],
    "mixed": [
        *(r"Conv2d\(.*stride_height=2", r"Conv2d\(.*min=0", r"Conv2d\(.*debug handle"),
        r"Clamp\(v4, min=-1, max=1\) -> %3 fp32 \(1, 5\)",
        r"payload of 1,120 bytes in segment 1",
    ],
    "quantised": [r"\[scale 0\."],
    "nested": [
        *(r"\| method forward: ", r"\|  +0  aten::sub.out\(self=%0, other=%1"),
        r"\| +\| +0  aten.mm.default\(%2, %0\) -> v3",
    ],
}
"""Lists and numbers, dynamic shapes, state, names of weights, delegates, programs in payloads."""


@pytest.mark.parametrize("name", LINES)
def test_what_lines_have(name: str) -> None:
    text = dump(opened(name))
    for line in LINES[name]:
        assert re.search(line, text), (line, text)


def test_what_cannot_be_opened_or_called_here() -> None:
    pte = pte_of("mixed").replace(b"XH00", b"XH99")
    program = Runtime.get().load_program(pte)
    assert dump(program).count("cannot be opened: ") == 2
    (method,) = json.loads(dump(program, "json"))["method_structures"]
    assert "XnnpackBackend" in method["delegates"][0]["error"]
    pte = pte_of("mixed").replace(b"XnnpackBackend", b"YnnpackBackend")
    text = dump(Runtime.get().load_program(pte))
    assert text.count("no nodes: the backend is missing or does not describe them") == 2
    assert "YnnpackBackend[1](" in text


def test_a_missing_operator() -> None:
    """Outputs of unknown operators are known: exporters repeat them as the last argument."""
    pte = pte_of("splits").replace(b"aten::split_with_sizes_copy", b"aten::split_with_sizes_XXXX")
    text = dump(Runtime.get().load_program(pte))
    (split,) = [line for line in text.splitlines() if "XXXX" in line]
    assert "-> %2 float32 (2, 3)" in split and "%3 float32 (2, 3)" in split
    assert split.endswith("(no kernel here)")


def test_one_method() -> None:
    program = opened("methods")
    assert "method decode" in dump(program) and "method encode" in dump(program)
    assert "method decode" not in dump(program, method="encode")
    with pytest.raises(executorch_c.NotFoundError):
        dump(program, method="forward")
    with pytest.raises(ValueError, match="is 'xml', expected 'text' or 'json'"):
        dump(program, "xml")  # type: ignore[arg-type]


def test_the_overview_counts_instructions_and_nodes() -> None:
    text = dump(pte_of("cnn_xnnpack"), method="forward")
    whole = text.as_dict()["method_structures"][0]
    (chain,) = whole["chains"]
    rows = [line.split() for line in text.overview().splitlines()]
    for name in {row["name"] for row in chain}:
        count = sum(row["name"] == name for row in chain)
        assert [name, str(count)] in rows
    nodes = [node["name"] for node in whole["delegates"][0]["inside"]["nodes"]]
    [line] = [" ".join(row) for row in rows if row[:1] == ["d0"]]
    assert all(f"{nodes.count(name)} {name}" in line for name in nodes)


def test_methods_that_return_constants_are_one_table() -> None:
    plans = [Plan("forward"), Plan("max_seq_len"), Plan("names")]
    x, y = plans[0].input((2,)), plans[0].output((2,))
    plans[0].call("aten::neg.out", x, y)
    plans[1].take(128)
    plans[2].take("a", 0.5)
    lines = dump(build(*plans)).overview().splitlines()
    assert [line.split() for line in lines[-4:-2]] == [
        ["methods", "that", "return", "constants"],
        ["method", "value"],
    ]
    assert lines[-2].split() == ["max_seq_len", "128"] and lines[-1].split()[0] == "names"
    assert lines[-1].endswith("'a', 0.5")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mixed.pte"
    file.write_bytes(pte_of("mixed"))
    assert cli.main(["dump", str(file), "--all"]) == 0
    assert capsys.readouterr().out == dump(opened("mixed"))
    assert cli.main(["dump", str(file), "--top", "1"]) == 0
    assert capsys.readouterr().out == dump(opened("mixed")).overview(1) + "\n"
    assert cli.main(["dump", str(file), "--json", "--method", "forward"]) == 0
    assert json.loads(capsys.readouterr().out)["method_structures"][0]["name"] == "forward"
    assert cli.main(["dump", str(file), "--method", "other"]) == 1
    assert "other" in capsys.readouterr().err
