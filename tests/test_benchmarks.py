"""The tables of `python -m benchmarks compare`, from planted results."""

import sys

import numpy as np
import pytest

from tests import ROOT


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])


def record(network, rival, best=None, **other):
    table = {"network": network, "size": 8, "batch": 1, "scheme": "fp32", "threads": 2}
    table |= {"rival": rival} | ({"why": "no"} if best is None else {"best": best}) | other
    return table


RECORDS = [
    record("a", "ours_delegated", 1.0),
    record("a", "onnxruntime", 4.0),
    record("b", "ours_delegated", 2.0),
    record("b", "onnxruntime", 2.0),
    record("c", "ours_delegated", 1.0),
    record("c", "onnxruntime"),  # not measured: counts in no mean
    record("a", "ours_delegated", 1.5, threads=1),
]


def test_means_count_only_networks_that_both_ran():
    from benchmarks import compare_report

    two = compare_report.select(RECORDS, threads=2)
    result = compare_report.ratios(two, "onnxruntime", "ours_delegated")
    assert result == {"a fp32": 4.0, "b fp32": 1.0}
    lines = "\n".join(compare_report.pairs(two))
    assert "| ONNX Runtime / executorch_c, delegated | 2 | 2.00 | 1.00 | b fp32 |" in lines


def test_scaling_compares_the_same_network():
    from benchmarks import compare_report

    assert compare_report.scaling(RECORDS)[-1] == "| executorch_c, delegated | 1 | 1.50 |"


def test_missing_results_have_their_reason():
    from benchmarks import compare_report

    assert compare_report.reasons(RECORDS) == ["- ONNX Runtime: no (c)"]


def test_growth_is_from_the_smallest_size_to_the_largest():
    from benchmarks import compare_report

    records = [record("a", "official", t, size=n) for n, t in ((8, 1.0), (32, 6.0), (16, 2.0))]
    assert "| 6.00 |" in compare_report.growth(records, "size")[-1]


def test_an_output_of_other_values_is_an_error():
    from benchmarks import rivals

    right = np.linspace(-1, 1, 100, dtype=np.float32)
    assert rivals.error([right], [right]) == 0
    wrong = right.copy()
    wrong[3] += 0.1
    assert rivals.error([wrong], [right]) > 1e-3
    assert rivals.error([right[None]], [right]) > 1e-3
    assert not rivals.error([right * np.nan], [right]) < 1e-3  # NaN is not less than anything
    assert not rivals.error([right * np.nan, right], [right, right]) < 1e-3


def test_packages_that_are_absent_are_named(monkeypatch):
    from benchmarks import common, rivals

    monkeypatch.delenv(common.PYTHON, raising=False)
    absent = rivals.Rival("x", "X", rivals.nothing, rivals.packaged("litert"), ("no_such_package",))
    assert absent.missing() == (
        "needs no_such_package: pip install '.[bench]', or EXECUTORCH_C_BENCH_PYTHON"
    )


def test_a_rival_of_another_python_is_measured_there(monkeypatch, tmp_path):
    """The other Python is this one, with a module and without executorch_c's environment."""
    from benchmarks import common, rivals

    (tmp_path / "no_such_package.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv(common.PYTHON, str(python))
    packages = ("no_such_package",)
    other = rivals.Rival("eager", "X", rivals.nothing, rivals.eager, packages, packages)
    assert other.missing() == ""
    job = rivals.Job("lenet", "fp32", 28, 1, 1)
    assert rivals.command(other, tmp_path, job)[0] == str(python)
    assert other.file(job) == job.io()
    with pytest.raises(RuntimeError, match="no_such_network"):
        other.file(rivals.Job("no_such_network", "fp32", 28, 1, 1))


def test_language_model_rivals_that_are_absent_are_named(monkeypatch):
    from benchmarks import bench_llm, llm_rivals

    monkeypatch.delenv(bench_llm.PYTHON, raising=False)
    monkeypatch.setattr(bench_llm, "prepare", lambda *_: None)
    absent = llm_rivals.Rival("absent", "gguf", llm_rivals.llama_cpp, "no_such_package", "absent")
    monkeypatch.setattr(bench_llm, "RIVALS", {"ours": llm_rivals.RIVALS["ours"], "absent": absent})
    result = bench_llm.prepared(bench_llm.RIVALS)
    assert list(result.pythons) == ["ours"]
    assert len(result.missing) == 1 and "absent is not measured" in result.missing[0]
    assert "pip install absent" in result.missing[0]


def test_language_models_are_compared_with_the_best_rival(monkeypatch):
    from benchmarks import bench_llm

    monkeypatch.setattr(bench_llm, "size_of", lambda *_: 100)

    def report(seconds):
        return {"prefill": seconds, "decode": seconds, "first": 1.0, "memory": 150.0}

    turns = {"ours": [2.0, 1.0], "official": [3.0, 4.0], "llama_cpp": [1.5, 2.0]}
    table = {name: bench_llm.best([report(x) for x in each]) for name, each in turns.items()}
    text = bench_llm.summary("int4", table)
    assert "decode of 48 tokens 1.50" in text and "Peak memory is 1.50 of the .pte" in text
    rows = bench_llm.rows_of("int4", table)
    assert [row.ratio for row in rows if "decode" in row.what] == [3.0, 1.5]


def test_positions_stay_integers_in_int8():
    """XNNPACKQuantizer would make floats of `positions + 2`, which cannot index."""
    import torch

    from benchmarks import exports

    class Positions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.linear = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x + self.table(torch.arange(x.shape[0]) * 1 + 2))

    torch.manual_seed(0)
    net, x = Positions().eval(), torch.randn(5, 4)
    program = exports.static_int8(net, (x,))
    assert any("quantize_per_tensor" in str(node.target) for node in program.graph.nodes)
    assert (program(x) - net(x)).abs().max() < 0.1
