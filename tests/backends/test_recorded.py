"""Recorded programs of interpreted backends equal eager; their traces and descriptions have the
same nodes; damage is an exception or a result."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error
from tests.backends.recorded import Recorded


def whole(data: bytes) -> tuple[int, int]:
    return 64, len(data)


def tosa_payload(data: bytes) -> tuple[int, int]:
    """Return where the graph begins and, at least, how far it reaches."""
    match = re.search(rb"\0\0\0TOSA(?!-|Backend|\.0)|VGF1", data)
    assert match is not None
    return match.start() - 1, len(data) - 512


def coreml_payload(data: bytes) -> tuple[int, int]:
    """Return where the payload begins and ends: at metadata.json, and at the reversed index."""
    return data.index(b'{"inputNames"'), data.rindex(b'"sedon"{') + len(b'"sedon"{')


def native_payload(data: bytes) -> tuple[int, int]:
    return data.index(b"NPTG") - 4, len(data)


def mlx_payload(data: bytes) -> tuple[int, int]:
    begin = data.index(b"\0\0\0\0MLX0")
    return begin, begin + int.from_bytes(data[begin + 8 : begin + 16], "little")


@dataclass(frozen=True)
class Backend:
    """A folder of recorded programs, with the largest error by a part of their names."""

    names: str
    limits: dict[str, float]
    """The first part that a name has counts."""
    delegate: str = ""
    """The backend's id; empty: its operators are those of a library."""
    payload: Callable[[bytes], tuple[int, int]] | None = None
    """Returns the bytes to damage; None: fuzz/test_fuzz.py does so."""
    damaged: int = 150
    is_relative: bool = False


BACKENDS = {
    # FoldQDQPass removes the quantisation of activations that the delegate keeps in float32: the
    # lowered mlp_8da8w is more accurate than the converted module.
    "vulkan": Backend(
        "cnn cnn_fp16 cnn_xq8 lin_4w lin_8da4w mlp mlp_8da8w mlp_dyn mlp_fp16 mlp_w4 mlp_w8"
        " mlp_xq8",
        {"mlp_8da8w": 1e-3, "fp16": 3e-3, "": 1e-5},
        "VulkanBackend",
        is_relative=True,
    ),
    # int8: every integer is equal, for one step of the last quantisation, 0.004, moves the result
    # by more than 1e-4; the softmax after it is float32.
    "coreml": Backend(
        "cache_fp32 cnn_fp16 cnn_fp32 mlp_bits mlp_dyn mlp_fp16 mlp_fp32 mlp_int4 mlp_int8 mlp_lut4"
        " mlp_sparse",
        {"fp16": 3e-3, "int8": 1e-7, "": 1e-5},
        "CoreMLBackend",
        coreml_payload,
    ),
    "tosa": Backend(
        "cnn_fp cnn_int8 mlp_fp mlp_int8 vgf_cnn_fp vgf_cnn_int8 vgf_lstm_int8 vgf_mlp_fp"
        " vgf_mlp_int8",
        {"int8": 0, "fp": 1e-5},
        "TOSABackend",
        tosa_payload,
    ),
    "mlx": Backend(
        "cnn decoder greedy mlp packed_4w scan", {"": 1e-5}, "MLXBackend", mlx_payload, 300
    ),
    "native": Backend("attention cnn cond mlp", {"": 1e-6}, "NativeBackend", native_payload, 300),
    "cadence": Backend("cnn_fp32 cnn_q8 mlp_q8 mlp_q8sm", {"": 6e-8}, "", whole, 250),
}
HERE = Path(__file__).parent
PROGRAMS = [(backend, name) for backend, row in BACKENDS.items() for name in row.names.split()]
each_program = pytest.mark.parametrize(("backend", "name"), PROGRAMS)


def recorded(backend: str) -> Recorded:
    return Recorded(HERE / f"{backend}_programs")


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_recorded_programs_are_listed(backend: str) -> None:
    assert recorded(backend).names() == BACKENDS[backend].names.split()


@each_program
def test_a_program_equals_eager(backend: str, name: str) -> None:
    row, programs = BACKENDS[backend], recorded(backend)
    limit = next(limit for part, limit in row.limits.items() if part in name)
    inputs, outputs = programs.arrays(name)
    for actual, expected in zip(programs.method(name).execute(inputs), outputs, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        rtol = limit if row.is_relative else 0
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=limit)


@each_program
def test_the_described_nodes_are_those_of_a_trace(backend: str, name: str) -> None:
    """Reports depend on it: they match both by their order."""
    if not BACKENDS[backend].delegate:
        pytest.skip("no delegate")
    inputs, outputs = recorded(backend).arrays(name)
    program = executorch_c.load(recorded(backend).folder / f"{name}.pte")
    count = len(program.info()["methods"][0]["delegates"])
    inside: list[Any] = [program._delegate("forward", i) for i in range(count)]
    method = program.load_method("forward")
    with method.tracing(values=True) as trace:
        results = method.execute(inputs)
    nodes = [event for event in trace.events if event.kind == "node"]
    described = [(n["name"], n["debug_handle"]) for graph in inside for n in graph["nodes"]]
    assert described == [(event.name, event.debug_handle) for event in nodes]
    for graph in inside:
        known = {value["id"] for value in graph["values"]}
        assert all(known.issuperset(n["inputs"] + n["outputs"]) for n in graph["nodes"])
    if count == 1:
        positions = [v["argument"] for v in inside[0]["values"] if v["argument"] is not None]
        assert sorted(positions) == list(range(len(inputs) + len(outputs)))
    if (backend, name) in TRACES:
        np.testing.assert_array_equal(nodes[-1].outputs[0].data, results[0])


TRACES = {
    ("vulkan", "mlp"): "aten.linear.default aten.relu.default aten.linear.default"
    " aten._softmax.default",
    ("coreml", "mlp_fp32"): "linear relu linear softmax",
    ("tosa", "mlp_fp"): "RESHAPE CONV2D CLAMP CONV2D RESHAPE REDUCE_MAX SUB EXP REDUCE_SUM"
    " RECIPROCAL MUL",
    ("mlx", "mlp"): "Transpose Addmm Gelu LayerNorm IdCopy Transpose Addmm",
    ("native", "mlp"): "aten.linear.default aten.relu_.default aten.linear.default",
}


@pytest.mark.parametrize(("backend", "name"), TRACES)
def test_nodes_have_the_names_of_the_payload(backend: str, name: str) -> None:
    inside: Any = executorch_c.load(recorded(backend).folder / f"{name}.pte")._delegate(
        "forward", 0
    )
    assert [node["name"] for node in inside["nodes"]] == TRACES[backend, name].split()
    handles = [node["debug_handle"] for node in inside["nodes"]]
    assert handles == sorted(set(handles)) or backend == "tosa"


@pytest.mark.parametrize("backend", [name for name, row in BACKENDS.items() if row.delegate])
def test_unknown_options_are_refused(backend: str) -> None:
    options = {BACKENDS[backend].delegate: {"fast": True}}
    with pytest.raises(Error, match="unknown option 'fast'"):
        recorded(backend).method(BACKENDS[backend].names.split()[0], backend_options=options)


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("backend", "name"), [at for at in PROGRAMS if BACKENDS[at[0]].payload])
def test_a_damaged_payload_is_a_result_or_an_exception(backend: str, name: str) -> None:
    row, programs = BACKENDS[backend], recorded(backend)
    assert row.payload is not None
    begin, end = row.payload((programs.folder / f"{name}.pte").read_bytes())
    programs.check_damaged(name, begin, end, row.damaged)


RELU = b"torch.ops.aten.relu_.default"
EXT_INST = bytes.fromhex("0c0007003d0000003f0000004000000038000000")
REXX = "'aten_relu__default' .torch.ops.aten.rexx_.default.: the operator is not known here"
RULU = r"node \d+ \(aten.rulu.default\): the operator is not known"
WRONG: dict[tuple[str, str], list[tuple[bytes, bytes, str]]] = {
    ("tosa", "vgf_mlp_fp"): [
        (b"VGF1", b"VGF2", "expected 'VGF1'"),
        (b"CONST00", b"CONST01", "is not in the section of constants"),
        (b"\x03\x02\x23\x07", b"\x03\x02\x23\x08", "not a SPIR-V module"),
        # The number of OpExtInst plus one is 0.
        (EXT_INST, EXT_INST[:-4] + b"\xff" * 4, "that TOSA does not have"),
    ],
    ("coreml", "mlp_fp32"): [
        (b'"sedon"{', b'"sedoN"{', "index has no list 'nodes'"),
        (b'"sedon"{', b'"sedon"[', "is not ',' or a closing bracket"),
        (b'"ledomlm.ledom"', b'"ledomlm.lebom"', "no model.mlmodel"),
        (b'"nosj.atadatem"', b'"nosj.atadatex"', "no metadata.json"),
        (b'"ezis"', b'"eziz"', "region with offset and size"),
        (b'"inputNames"', b'"inputNamez"', "no list 'inputNames'"),
        (b'["x"]', b'["y"]', "'y' of inputNames is not a value"),
        (b"\xef\xbe\xad\xde", b"\xef\xbe\xad\xdf", "magic 0xdfadbeef"),
        (b"\x0a\x04relu", b"\x0a\x04rely", "aten_relu_default .rely.: the operator is not supp"),
    ],
    ("native", "mlp"): [
        (RELU, b"torch.ops.aten.rexx_.default", REXX),
        (RELU, b"torch_ops_aten_relu__default", "operator is not known"),
        (RELU, b"torch.ops.aten.relu__default", "target is not torch.ops.NAMESPACE.NAME.OVERLOAD"),
        (b"NPTG", b"NPTX", "without the identifier of a native graph, expected 'NPTG'"),
    ],
    ("vulkan", "mlp"): [
        (b"VH00", b"\0H00", "without the header of a Vulkan graph"),
        (b"VK00", b"VK01", "'VK01', expected 'VK00'"),
        (b"aten.relu.default", b"aten.rulu.default", RULU),
        (b"aten.linear.default", b"et_vk.linear_dW.def", "not known"),
    ],
}
"""Programs with other bytes, and the message."""


@pytest.mark.parametrize(
    ("backend", "name", "old", "new", "match"),
    [(*program, *row) for program, rows in WRONG.items() for row in rows],
)
def test_a_wrong_payload_is_named(
    backend: str, name: str, old: bytes, new: bytes, match: str
) -> None:
    data = (recorded(backend).folder / f"{name}.pte").read_bytes()
    assert old in data and len(old) == len(new)
    with pytest.raises(Error, match=match):
        recorded(backend).method(data.replace(old, new))
