"""Failing programs cut to a few nodes, with files for a report.

`python -m tests.debug.cuts` measures it on a hundred programs.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import cli, devtools
from executorch_c.check import by_flow, flows
from executorch_c.cut import constants, files, run as cut_run
from executorch_c.cut.graph import Part, Whole
from executorch_c.debug._graphs.reference import reference_of
from executorch_c.rewrite import kinds
from tests import process
from tests.backends import planted
from tests.debug import cuts, flow_bugs
from tests.models import flow_models

X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))


def wrong_program(flow: str = "xnnpack") -> tuple[Any, bytes]:
    """Return a model, and its program with a wrong element in a weight."""
    model, inputs = flow_models.make("mlp")
    made = by_flow.make(model, (X,), flow, progress=False)
    with torch.no_grad():
        wrong, _ = planted.plant(made.reference, ("element",), 1, inputs[:2])
    return made.reference, by_flow.lowered(flow, wrong)


def test_a_bug_of_a_flow(tmp_path: Path) -> None:
    """One operator shows it; the files are those that the result has."""
    model, _ = flow_models.make("mlp")
    folder = tmp_path / "cut"
    with flow_bugs.planted("portable", "tanh is sigmoid"):
        cut = devtools.cut(model, (X,), folder=folder, flow="portable", progress=False)
    assert cut and cut.nodes == ("tanh",) and cut.shown == len(cut.samples) == 3
    assert (cut.official, cut.constants, cut.whole) == ("differ", 0, 5)
    names = {"cut.pte", "inputs.npz", "module.py", "repro.py", "samples.pt", "weights.pt"}
    assert {path.name for path in folder.iterdir()} == names
    assert cut.program == (folder / "cut.pte").read_bytes()
    (x,) = np.load(folder / "inputs.npz").values()
    with torch.no_grad():
        assert np.array_equal(x, model[2](model[1](model[0](X))))
    (y,) = executorch_c.load(folder / "cut.pte").load_method("forward").execute([x])
    assert np.allclose(y, 1 / (1 + np.exp(-x)), atol=1e-6)
    assert cuts._is_right("portable", folder)
    assert str(cut).startswith("1 operator of 5 shows the fault of tanh of '3', ")


def test_the_part_grows_by_what_the_fault_needs(tmp_path: Path) -> None:
    """A linear layer is wrong after relu only."""
    model, _ = flow_models.make("mlp")
    with flow_bugs.planted("portable", "linear after relu"):
        cut = devtools.cut(model, (X,), folder=tmp_path / "cut", progress=False)
    assert cut.nodes == ("relu", "linear") and cut.tried > 1 and cut.shown == 3


def test_what_is_not_needed_is_left_out(tmp_path: Path) -> None:
    """A bug of sigmoid that needs the relu two operators before it: the part grows on both sides,
    and what reads the sigmoid is left out again."""

    def bug(node: torch.fx.Node) -> bool:
        before = node.args[0] if node.args else None
        if "sigmoid" not in str(node.target) or not isinstance(before, torch.fx.Node):
            return False
        if not flow_bugs._is(before.args[0], "relu"):
            return False
        return flow_bugs._argument(node, 0, before.args[0])

    def flow(exported: Any) -> Any:
        return flows._lower(flow_bugs.changed(exported, bug)[0], flows.FLOWS["portable"], "forward")

    class Square(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.relu().square().sigmoid().tanh().exp() - 1).sin()

    cut = devtools.cut(Square(), (X,), folder=tmp_path / "cut", flow=flow, progress=False)
    assert cut.nodes[0] == "relu" and cut.nodes[-1] == "sigmoid" and cut.size == 3
    assert "SystemExit" in (tmp_path / "cut" / "repro.py").read_text()


def test_a_constant_of_the_file(tmp_path: Path) -> None:
    """The flow makes a right program; the part gets the file's constant."""
    reference, program = wrong_program()
    (tmp_path / "wrong.pte").write_bytes(program)
    folder = tmp_path / "cut"
    cut = devtools.cut(
        reference, (X,), folder=folder, program=tmp_path / "wrong.pte", progress=False
    )
    assert cut.nodes == ("linear",) and cut.constants and cut.official == "differ"
    assert cuts._is_right("xnnpack", folder)
    assert "the flow makes others" in cut.summary()


@pytest.mark.heavy  # new processes that import torch
def test_the_script_of_a_report(tmp_path: Path) -> None:
    """It says that the program is wrong, and that the flow makes a right one."""
    reference, program = wrong_program()
    folder = tmp_path / "cut"
    assert devtools.cut(reference, (X,), folder=folder, program=program, progress=False)
    done = process.python("repro.py", cwd=folder, ok=False)
    assert done.returncode == 3, done.stderr
    assert "official runtime, sample 2: relative error" in done.stdout
    (folder / "cut.pte").unlink()
    done = process.python("repro.py", "--export", cwd=folder, ok=False)
    assert done.returncode == 0, done.stderr
    assert "need --import FILE" in done.stdout


WRONG_TANH = """
import executorch_c

@executorch_c.register_operator(
    "aten::tanh.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", override=True
)
def wrong(self):
    return self / 2
"""


@pytest.mark.heavy  # a new process that imports torch
def test_the_script_of_a_wrong_operator(tmp_path: Path) -> None:
    """The official runtime computes it rightly; here it is wrong with the file that has it."""
    model, _ = flow_models.make("mlp")
    folder, operators = tmp_path / "cut", tmp_path / "operators.py"
    operators.write_text(WRONG_TANH)
    runpy.run_path(str(operators))
    try:
        cut = devtools.cut(model, (X,), folder=folder, flow="portable", progress=False)
    finally:
        executorch_c.unregister_operator("aten::tanh.out")
    assert cut.nodes == ("tanh",) and cut.official == "match"
    done = process.python("repro.py", "--import", operators, cwd=folder, ok=False)
    assert done.returncode == 3, done.stderr
    assert "executorch_c, sample 2: relative error" in done.stdout


def made_by_another_flow(flow: str) -> tuple[Any, Any]:
    """Return a model, and the program of a flow with a bug, whose name is that of a right one."""
    model, _ = flow_models.make("mlp")
    with flow_bugs.planted(flow, "tanh is sigmoid"):
        made = by_flow.make(model, (X,), flow, progress=False)
    return made.reference, made.subject.opened


def test_nodes_of_the_program_itself(tmp_path: Path) -> None:
    """The flow that is named makes a right program: the part is the program's own node."""
    reference, program = made_by_another_flow("portable")
    folder = tmp_path / "cut"
    cut = devtools.cut(reference, (X,), folder=folder, program=program, progress=False)
    assert cut.is_own and cut.nodes == ("tanh",) and cut.shown == 3 and cut.official == "differ"
    assert "the nodes are the program's: the flow makes others" in " ".join(str(cut).split())
    (x,) = np.load(folder / "inputs.npz").values()
    (y,) = executorch_c.load(folder / "cut.pte").load_method("forward").execute([x])
    assert np.allclose(y, 1 / (1 + np.exp(-x)), atol=1e-6)


ATTRIBUTES = [
    ("softmax over another axis", "transformer", "xnnpack", ("softmax",)),
    ("padding of a pool", "cnn", "portable", ("max_pool2d",)),
]


@pytest.mark.parametrize(("fault", "model", "flow", "nodes"), ATTRIBUTES)
def test_an_attribute_of_the_file(
    tmp_path: Path, fault: str, model: str, flow: str, nodes: tuple[str, ...]
) -> None:
    """No constant differs: the part has the file's attribute."""
    case = cuts.Case("attribute", fault, model, flow)
    outcome = cuts.outcome(case, tmp_path / "cut")
    assert outcome is not None and outcome.is_kept and outcome.result.is_own, outcome
    assert outcome.result.nodes == nodes


def test_a_fault_that_no_part_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow that is named makes a right program, the backend's payloads have no writer, and no
    bytes correspond."""
    monkeypatch.delitem(kinds.WRITERS, "XnnpackBackend")
    monkeypatch.setattr(constants, "pairs", lambda file, fresh: [])
    reference, program = made_by_another_flow("xnnpack")
    cut = devtools.cut(
        reference,
        (X,),
        folder=tmp_path / "cut",
        program=program,
        seconds=600,
        progress=False,
    )
    assert not cut.ok and cut.folder is None and not (tmp_path / "cut").exists()
    assert "the flow makes another program of this model" in cut.reason
    assert str(cut).startswith("no part shows the fault of tanh")


def test_refused(tmp_path: Path) -> None:
    model, _ = flow_models.make("mlp")
    with pytest.raises(ValueError, match="nothing to cut: the program matches its model"):
        devtools.cut(model, (X,), folder=tmp_path / "new", progress=False)
    reference, program = wrong_program("portable")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="expected a new or empty folder"):
        devtools.cut(reference, (X,), folder=tmp_path, program=program, progress=False)


def test_explain_cuts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("model.py").write_text(
        "import torch\n\ndef make():\n    torch.manual_seed(0)\n"
        "    layers = torch.nn.Linear(3, 2), torch.nn.Tanh()\n"
        "    return torch.nn.Sequential(*layers), (torch.ones(2, 3),)\n"
    )
    with flow_bugs.planted("portable", "tanh is sigmoid"):
        line = "explain model.py:make --flow portable"
        assert cli.main(line.split()) == 3
        out = capsys.readouterr().out
        assert f"next: executorch-c {line} --cut cut\n" in out
        assert cli.main(f"{line} --cut cut --save-pte m.pte".split()) == 3
        assert (
            "\nfiles: cut (module.py, cut.pte, inputs.npz, repro.py)\n" in capsys.readouterr().out
        )
        with pytest.raises(SystemExit):
            cli.main(f"{line} --cut cut".split())
        assert "cut: expected a new or empty folder" in capsys.readouterr().err
        line = "explain m.pte --model model.py:make --flow portable --cut again --json"
        assert cli.main(line.split()) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["cut"]["nodes"] == ["tanh"] and report["first"] is not None

    def unknown(program: object) -> str:
        raise ValueError("pass `flow`")

    line = "explain m.pte --model model.py:make"
    monkeypatch.setattr(cut_run, "flow_of", unknown)
    assert cli.main(line.split()) == 3
    assert f"next: executorch-c {line} --cut cut --flow FLOW\n" in capsys.readouterr().out
    monkeypatch.setattr(cut_run, "may_have_part", lambda report: False)
    assert cli.main(line.split()) == 3
    assert "next:" not in capsys.readouterr().out


def test_parts_of_a_graph() -> None:
    """In-place operators become others; a part between quantisers has both ends of each."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            values, places = self.layer(x).relu_().topk(2)
            return values + places

    whole = Whole(reference_of(Net().eval(), (torch.ones(2, 3),), "forward"), [torch.ones(2, 3)])
    names = [node.name for node in whole.operators]
    assert names == ["linear", "relu_", "topk", "getitem", "getitem_1", "add"]
    assert str(whole.operators[1].target) == "aten.relu.default"
    part = Part(whole, whole.closed([whole.operators[3]]))
    assert {node.name for node in part.nodes} == {"topk", "getitem", "getitem_1"}
    assert [node.name for node in part.inputs] == ["relu_"] and part.size == 1
    assert [node.name for node in part.outputs] == ["getitem", "getitem_1"]


def words(*numbers: int) -> bytes:
    return b"".join(bytes([n]) * 15 + b"." for n in numbers)


def test_constants_in_another_order() -> None:
    """The file has one constant changed in part, one as a whole, and both elsewhere."""
    fresh = words(1, 2, 3, 4, 5, 6, 7, 8, 9)
    file = words(1, 7, 8, 40, 41, 2, 30, 4, 9)
    assert constants.pairs(file, fresh) == [
        (slice(32, 48), slice(96, 112)),
        (slice(64, 96), slice(48, 80)),
    ]
    small = words(50, 2, 3, 4, 51)
    program, count = constants.transplanted(small, file, fresh, constants.pairs(file, fresh))
    assert (program, count) == (words(50, 2, 30, 4, 51), 15)
    assert constants.transplanted(words(50), file, fresh, constants.pairs(file, fresh))[1] == 0
    assert constants.pairs(fresh, fresh) == []


def test_a_constant_in_another_order() -> None:
    """Its words are those of the flow's, in another order."""
    fresh, file = words(1, 2, 3, 4, 5, 6), words(1, 2, 4, 3, 5, 6)
    assert constants.pairs(file, fresh) == [(slice(32, 64), slice(32, 64))]
    moved = words(4, 5, 6, 1, 3, 2)
    assert constants.pairs(words(4, 5, 6, 1, 2, 3), fresh) == constants.pairs(moved, fresh) == []


def test_digests_stay_those_of_the_flow() -> None:
    fresh, file = (
        words(1) + name + words(2) for name in (b"0123456789abcdef", b"fedcba9876543210")
    )
    assert constants.pairs(file, fresh) == []


@pytest.mark.parametrize("name", ["xnnpack", "portable", "vulkan", "tosa"])
def test_partitioners_as_text(name: str) -> None:
    """The text of a flow's partitioners needs nothing of this package."""
    if not flows.FLOWS[name].is_installed:
        pytest.skip(f"needs {', '.join(flows.FLOWS[name].packages)}")
    text = files.partitioners_text(name)
    assert text is not None and "executorch_c" not in text
    names: dict[str, Any] = {}
    exec(text, names)
    kinds = [type(one) for one in names["partitioners"]()]
    assert kinds == [type(one) for one in flows.FLOWS[name].partitioners()]


def test_flows_that_do_more_have_no_text() -> None:
    assert files.partitioners_text("mlx") is files.partitioners_text(len) is None


SAMPLE = [
    cuts.Case("flow", "batch norm after convolution", "cnn", "xnnpack"),
    cuts.Case("flow", "scale of linear's input", "mlp", "xnnpack-int8"),
    cuts.Case("flow", "softmax over another axis", "transformer", "vulkan"),
    cuts.Case("constant", "rows", "unet", "xnnpack"),
    cuts.Case("constant", "rows", "mlp", "portable"),
    cuts.Case("constant", "bias", "cnn", "xnnpack-int8"),
    cuts.Case("attribute", "scale of linear's input", "cnn", "vulkan-int8"),  # inputs of integers
    cuts.Case("attribute", "padding of a pool", "unet", "xnnpack"),  # a value in NHWC order
]


@pytest.mark.heavy
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: f"{case.fault}-{case.model}-{case.flow}")
def test_a_sample_of_the_measured_programs(case: cuts.Case, tmp_path: Path) -> None:
    outcome = cuts.outcome(case, tmp_path / "cut")
    assert outcome is not None and outcome.is_kept and outcome.result.size <= 4, outcome
