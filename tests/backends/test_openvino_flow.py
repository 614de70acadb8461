"""Models lowered to OpenVINO at test time: shapes, arguments, dtypes; the flow's extra is named."""

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

if not all(importlib.util.find_spec(name) for name in ("openvino", "nncf")):
    pytest.skip("needs the extra openvino-flow", allow_module_level=True)
from executorch_c import Runtime
from executorch_c.check import flows
from executorch_c.testing import check_model
from tests.backends import flow_matrix as matrix, openvino_blob, openvino_ties
from tests.models import flow_models as models

pytestmark = pytest.mark.heavy  # an export needs some seconds


def test_the_flow_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nncf", None)
    with pytest.raises(ImportError, match=r"'executorch_c\[openvino-flow\]'"):
        check_model(torch.nn.ReLU(), (torch.ones(2),), flow="openvino")


def test_integers_of_weights_are_the_modules() -> None:
    """Except for the largest weight of a channel: a tie. The planted fault is another one."""
    program, (x, *_) = matrix.export(matrix.scheme_of("openvino-int8-sym"), "cnn")
    assert openvino_ties.with_codes(program.graph, x, program.pte)
    payload = Runtime.get().load_program(program.pte)._payload("forward", 0)
    result = openvino_blob.constants_of(program.pte, payload, "aten_convolution_default_1")
    (weight,) = (one.place for one in result if one.dtype == "i8")
    codes = np.frombuffer(program.pte[weight], "i1")
    wrong = bytearray(program.pte)
    wrong[weight.start + int(np.flatnonzero(np.abs(codes) < 100)[0])] ^= 1
    with pytest.raises(AssertionError, match=r"no constant of \(16, 8, 3, 3\)"):
        openvino_ties.with_codes(program.graph, x, bytes(wrong))


# ---- shapes, arguments and dtypes --------------------------------------------------------------


class Several(torch.nn.Module):
    """Several inputs, one of them of integers, and results of several shapes and dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = torch.nn.Embedding(10, 16), torch.nn.Linear(16, 8)

    def forward(self, ids: Any, x: Any, scale: Any) -> Any:
        y = self.layer(self.table(ids) + x)
        return y * scale, y.argmax(-1), y.relu().sum(1)


class Two(torch.nn.Module):
    """Two inputs and two results, of one dynamic size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, x: Any, y: Any) -> Any:
        return self.layer(x) * self.layer(y).sigmoid(), (x - y).amax(1)


def lowered(model: Any, inputs: Any, dynamic: Any = None) -> bytes:
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    return bytes(flows._lower(exported, flows.FLOWS["openvino"], "forward").buffer)


def compare(pte: bytes, model: Any, calls: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Compare a program's results with eager's, plain and traced, and require one delegate."""
    program = Runtime.get().load_program(pte)
    assert [use["id"] for use in program.info()["methods"][0]["delegates"]] == [openvino_blob.ID]
    method = program.load_method("forward")
    for inputs in calls:
        with torch.no_grad():
            expected = model(*inputs)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        arrays = [x.numpy() for x in inputs]
        plain = [x.copy() for x in method.execute(arrays)]
        with method.tracing(values=True) as trace:
            traced = method.execute(arrays)
        shown = [v.data for e in trace.events if e.kind == "node" for v in e.outputs]
        assert sum(isinstance(data, np.ndarray) for data in shown) >= 2
        for result, again, value in zip(plain, traced, wanted, strict=True):
            np.testing.assert_array_equal(result, again)
            assert result.dtype == value.numpy().dtype and result.shape == value.shape
            np.testing.assert_allclose(result, value.numpy(), rtol=rtol, atol=atol)


def test_dynamic_images() -> None:
    model, _ = models.make("unet")
    sides = {2: 2 * torch.export.Dim("h", min=2, max=32), 3: 2 * torch.export.Dim("w", max=32)}
    pte = lowered(model, (torch.rand(1, 3, 16, 24),), (sides,))
    compare(pte, model, [(torch.rand(1, 3, h, w),) for h, w in ((16, 24), (8, 40), (22, 6))])


def test_several_arguments_and_results() -> None:
    torch.manual_seed(0)
    model = Several().eval()
    calls = [(torch.randint(0, 10, (2, 5)), torch.randn(2, 5, 16), torch.rand(8)) for _ in range(3)]
    compare(lowered(model, calls[0]), model, calls)
    torch.manual_seed(0)
    pairs = [(torch.randn(n, 16), torch.randn(n, 16)) for n in (4, 7, 1)]
    rows = torch.export.Dim("rows", min=1, max=9)
    compare(lowered(two := Two().eval(), pairs[0], ({0: rows}, {0: rows})), two, pairs)


def test_sizes_as_arguments_are_refused_by_the_flow() -> None:
    """A view of a dynamic size: a delegate would take the size."""
    model, inputs = models.make("cnn")
    with pytest.raises(AttributeError, match="'SymInt' object has no attribute 'type'"):
        lowered(model, (torch.cat(inputs[:3]),), ({0: torch.export.Dim("n", min=1, max=64)},))


@pytest.mark.parametrize("name", ["cnn", "mobilenet", "unet", "transformer"])
def test_half_models(name: str) -> None:
    """Eager rounds each result to float16, the engine fewer of them."""
    model, inputs = models.make(name)
    model, halves = model.half(), [(x.half(),) for x in inputs[:2]]
    compare(lowered(model, halves[0]), model, halves, rtol=3e-3, atol=6e-3)


# ---- what the flow's quantizer refuses ---------------------------------------------------------

REFUSED = {
    "INT8_SYM": (IndexError, "Dimension out of range"),
    "INT8_TRANSFORMER": (AttributeError, "'list' object has no attribute 'numel'"),
}
"""Errors of the transformer in modes of the quantizer."""


def without_observer(graph: Any) -> Iterator[tuple[dict[Any, Any], Any]]:
    """Yield tables and keys of annotations that no observer can take: of a list of tensors, or of
    the channels of a vector."""
    for node in graph.graph.nodes:
        note = node.meta.get("quantization_annotation")
        rows = [] if note is None else [(note.input_qspec_map, key) for key in note.input_qspec_map]
        if note is not None and note.output_qspec is not None:
            rows.append((vars(note), "output_qspec"))
        for table, key in rows:
            source, spec = (node, table[key]) if isinstance(key, str) else (key, table[key])
            value = source.meta.get("val")
            if source.op == "get_attr":
                value = graph.get_parameter(source.target)
            has_channels = "per_channel" in str(getattr(spec, "qscheme", ""))
            if isinstance(value, (list, tuple)) or (has_channels and value.dim() < 2):
                yield table, key


@pytest.mark.parametrize("mode", REFUSED)
def test_the_quantizer_annotates_what_no_observer_takes(mode: str) -> None:
    """The fault is the quantizer's: torchao calls its observers, nothing of this package runs. It
    has a layer norm's bias observed by channels, and the list that `split` returns. Without these
    annotations the module is calibrated."""
    from executorch.backends.openvino.quantizer import OpenVINOQuantizer, QuantizationMode
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    left_out: set[str] = set()

    class Mended(OpenVINOQuantizer):  # type: ignore[misc]
        def annotate(self, graph: Any) -> Any:
            graph = super().annotate(graph)
            for table, key in list(without_observer(graph)):
                left_out.add(getattr(key, "name", "output"))
                table.pop(key) if hasattr(key, "name") else table.update({key: None})
            return graph

    model, (x, *_) = models.make("transformer")
    prepared = []
    for quantizer in (OpenVINOQuantizer, Mended):
        graph = torch.export.export(model, (x,)).module(check_guards=False)
        prepared.append(prepare_pt2e(graph, quantizer(mode=getattr(QuantizationMode, mode))))
    with pytest.raises(REFUSED[mode][0], match=REFUSED[mode][1]):
        prepared[0](x)
    assert left_out and prepared[1](x).shape == model(x).shape
