"""OpenvinoBackend: values inside the model, by a second model of which they are results, too."""

import importlib.util
import re
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c.devtools import check_nan
from tests.backends.openvino_blob import Blob, Layers, cases, constants_of, inside, load, payload
from tests.backends.openvino_blob import program, pte, unpack

if importlib.util.find_spec("openvino") is None:
    pytest.skip("the extra openvino is not installed", allow_module_level=True)


def traced(data: bytes, inputs: Any) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Return the results of a call, and the values inside: the first of each operator."""
    method, result = load(data), {}
    with method.tracing(values=True) as trace:
        results = method.execute(inputs)
    for event in trace.events:
        for value in event.outputs if event.kind == "node" else ():
            if isinstance(value.data, np.ndarray):
                result.setdefault(event.name, value.data)
    return results, result


def test_layers_have_the_names_of_the_graph() -> None:
    inputs, _ = cases("cnn")
    results, values = traced(pte("cnn"), inputs)
    relu, pool = values["aten.relu.default"], values["aten.max_pool2d_with_indices.default"]
    assert relu.min() == 0 and relu.max() > 0.1
    n, c, h, w = relu.shape
    expected = relu.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
    np.testing.assert_array_equal(pool, expected)
    np.testing.assert_array_equal(list(values.values())[-1], results[0])


@pytest.mark.parametrize("name", ["cnn", "cnn_int8_sym", "mlp_dyn", "transformer"])
def test_a_trace_leaves_the_results(name: str) -> None:
    inputs, _ = cases(name)
    method = load(pte(name))
    before = [x.copy() for x in method.execute(inputs)]
    results, values = traced(pte(name), inputs)
    assert len(values) > 2
    for x, y in zip(results, before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_nan_in_a_weight_is_found_there() -> None:
    data = bytearray(pte("cnn"))
    (weight,) = (
        one
        for one in constants_of(pte("cnn"), payload("cnn"), "aten_addmm_default")
        if one.place.stop - one.place.start > 100
    )
    data[weight.place.start : weight.place.start + 4] = np.float32(np.nan).tobytes()
    report = check_nan(bytes(data), cases("cnn")[0])
    assert report.first is not None and report.first.origin == "constant", str(report)
    at = [node["name"] for node in inside(pte("cnn"))["nodes"]].index("aten.addmm.default")
    assert report.first.where == f"taken by aten.addmm.default, delegate 0, node {at}"


def hostile() -> dict[str, Blob]:
    """Models that the engine takes, and that have no honest values."""
    blob = unpack(payload("mlp_dyn"))
    return {
        "no end of layers": blob.edited(b"</layers>", b"</layers >"),
        "no end of edges": blob.edited(b"</edges>", b"</edges >"),
        "names of all lengths": blob.edited(b' names="', b' names="' + b"x" * 100_000),
    }


@pytest.mark.parametrize("name", hostile())
def test_other_texts_are_shown_or_not(name: str) -> None:
    (x,), (expected,) = cases("mlp_dyn")
    data = program(hostile()[name].pack(), x.shape, expected.shape)
    results, values = traced(data, [x])
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)
    assert len(values) > 1


def test_a_value_of_another_shape_than_its_port_is_an_error() -> None:
    """The engine infers shapes; the port of the payload states others."""
    blob = unpack(payload("cnn"))
    at = blob.model.index(b'type="MaxPool"')
    at = blob.model.index(b"<dim>", blob.model.index(b"<output>", at))
    model = blob.model[:at] + b"<dim>7</dim>" + blob.model[blob.model.index(b"<dim>", at + 5) :]
    (x,), (expected,) = cases("cnn")
    wrong = Blob(blob.about, blob.constants, model, blob.key)
    data = program(wrong.pack(), x.shape, expected.shape)
    np.testing.assert_allclose(load(data).execute([x])[0], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(executorch_c.Error, match=r"value of layer \d+ \(aten_max_pool2d"):
        traced(data, [x])


def test_values_count_towards_max_bytes() -> None:
    data, inputs = pte("cnn"), cases("cnn")[0]
    program = executorch_c.Runtime.get().load_program(data)
    method = program.load_method("forward", max_bytes=2 * len(data))
    method.execute(inputs)
    with pytest.raises(executorch_c.MemoryAllocationFailedError), method.tracing(values=True):
        method.execute(inputs)
    method.execute(inputs)


# ---- regions -------------------------------------------------------------------------------------


def layers_of(data: bytes) -> list[tuple[str, str]]:
    """Return operators and types of the layers."""
    return [(node["name"], node["note"].split()[0]) for node in inside(data)["nodes"]]


REGIONS = "mlp", "mlp_int8_sym", "transformer"


@pytest.mark.parametrize("name", REGIONS)
def test_layers_of_regions_are_shown(name: str) -> None:
    """In their order, with values; the second model computes the first one's results."""
    inputs, _ = cases(name)
    layers = layers_of(pte(name))
    assert "Subgraph" not in [kind for _, kind in layers]
    method = load(pte(name))
    with method.tracing(values=True) as trace:
        results = method.execute(inputs)
    events = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in events] == [name for name, _ in layers]
    blob = unpack(payload(name))
    whole = {layer.get("name") for i, layer in Layers(blob.model).of.items() if i[0]}
    names = {str(event.name) for event in events if event.outputs}
    assert {n.split("/")[1] for n in whole if n and n.startswith("aten") and "/" in n} & names
    np.testing.assert_array_equal(load(pte(name)).execute(inputs)[0], results[0])


BROKEN: dict[str, tuple[bytes, bytes]] = {
    "an argument of no region": (b'<input external_port_id="0"', b'<input external_port_id="99"'),
    "an argument twice": (b'internal_layer_id="3"', b'internal_layer_id="4"'),
    "a circle": (b'<output external_port_id="5"', b'<output external_port_id="0"'),
    "no number": (b'<input external_port_id="0"', b'<input external_port_id=""'),
    "another operator": (b'type="ReLU" version="opset1"', b'type="ReLU" version="SnippetsOpset"'),
    "a layer without an end": (b'type="ReLU" version="opset1"', b'type="ReLU" version="opset1" /'),
    "a port map that outlives its region": (b"<port_map>", b"<port_map></layer>"),
    "a body in a body": (b"<body>", b"<body><layers>"),
}
"""Changes of a region, which remains one layer."""


@pytest.mark.parametrize("change", BROKEN)
def test_a_region_of_another_form_remains(change: str) -> None:
    blob = unpack(payload("mlp"))
    before = layers_of(program(blob.pack()))
    try:
        after = layers_of(program(blob.edited(*BROKEN[change]).pack()))
    except executorch_c.InvalidProgramError as error:
        assert re.search("edge|layer", str(error))
    else:
        assert ("Subgraph" in [kind for _, kind in after]) and len(after) < len(before)
