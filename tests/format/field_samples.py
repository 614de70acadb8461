"""Files and payloads of each format whose fields can be set: a row of SAMPLES for each format."""

import functools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import executorch_c
from executorch_c import _core, _flatbuffers
from executorch_c.bundled import BundledProgram
from executorch_c.inspect import etdump_events
from tests.backends import mlx_nodes, mlx_rows, protobuf, xnnpack_kinds
from tests.backends.hostile_native import NATIVE
from tests.backends.hostile_tosa import TOSA
from tests.backends.hostile_vulkan import VULKAN
from tests.backends.mlx_nodes import MLX, computed, integer
from tests.backends.payloads import BACKENDS, SPARE_BYTES, Change, Format, Graph
from tests.backends.payloads import filled, roomy, schema
from tests.backends.recorded import Recorded
from tests.backends.xnnpack_series import ENGINE
from tests.format.test_data_files import data_file, external
from tests.plans import Constants, Plan, build
from tests.plans import schema as pte_schema

Tables = dict[str, dict[str, str]]
LIMITS = {"max_bytes": 1 << 26, "max_steps": 1 << 16}
ONES = np.ones(4, np.float32)
NODE = re.compile(r"^ECX_NODE\(\d+, (\w+), (\w+),", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """A file or payload: `edited` returns the file with a change, `shown` all that the library
    gives of a file, or raises the library's error."""

    tables: Tables
    root: str
    edited: Callable[[Change], bytes]
    shown: Callable[[bytes], str]


def run(inputs: Sequence[Any], pte: bytes, **options: Any) -> str:
    """Return outputs of a program, and what is shown of it."""
    program = executorch_c.load(pte, **options)
    method = program.load_method("forward", **LIMITS)
    outputs = [np.asarray(out).tobytes() for out in method.execute(inputs)]
    info = program.info()["methods"][0]
    names = info["encoded_inputs"], info["encoded_outputs"]
    inside = [program._delegate("forward", i) for i in range(len(info["delegates"]))]
    return f"{outputs} {inside} {program._structure('forward')} {method.metadata} {names}"


def file_sample(
    kind: str, root: str, data: bytes, identifier: bytes, shown: Callable[[bytes], str]
) -> Sample:
    """Return a sample of a file whose tables `_core` knows."""
    tables = _core._file_tables(kind)

    def edited(change: Change) -> bytes:
        graph = _flatbuffers.read(data, tables, root)
        change(graph)
        flat = _flatbuffers.write(graph, tables, root, "a test", identifier=identifier)
        return header(flat, data, kind)

    return Sample(tables, root, edited, shown)


HEADERS = {"pte": (b"eh00", "<4sIQQQ"), "ptd": (b"FH01", "<4sIQQQQ")}
SEGMENTS_ALIGNMENT = 1 << 15
"""More than the tables have, so that segments stay where they are."""


def header(flat: bytes, file: bytes, kind: str) -> bytes:
    """Return a file of tables and of another one's segments."""
    magic, layout = HEADERS.get(kind, (b"", ""))
    if not magic or file[8:12] != magic:
        return flat
    size = struct.calcsize(layout)
    *_, base, length = struct.unpack_from(layout, file, 8)
    end = len(flat) + size
    start = -(-end // SEGMENTS_ALIGNMENT) * SEGMENTS_ALIGNMENT
    tables = (end,) if kind == "pte" else (8 + size, len(flat) - 8)
    head = struct.pack(layout, magic, size, *tables, start, length)
    root = struct.pack("<I", struct.unpack_from("<I", flat)[0] + size)
    return (root + flat[4:8] + head + flat[8:]).ljust(start, b"\0") + file[base : base + length]


# ---- files -----------------------------------------------------------------------------------


def with_everything() -> bytes:
    """Return a program with all kinds of values, constants, state and places in the source."""
    constants, plan = Constants(), Plan()
    x, y = plan.input((4,)), plan.tensor((4,))
    state = plan.tensor((4,), buffer=constants.add_mutable(ONES), name="state")
    plan.call("aten::add.out", x, plan.constant(constants, 3 * ONES), 1, y)
    plan.call("aten::mul.Scalar_out", y, 2.5, y)
    plan.jump_false(plan.input((), "bool"), 4)
    plan.call("aten::add.out", y, state, 1, y)
    plan.call("aten::copy_", state, y, False, returns=[state])
    plan.call("aten::cat.out", [y, y], 0, plan.output((8,)))
    plan.call("aten::sum.IntList_out", y, [0], True, None, plan.output((1,)))
    image = plan.tensor((1, 1, 2, 2))
    plan.call("aten::view_copy.out", y, [1, 1, 2, 2], image)
    zero = plan.constant(constants, np.zeros(1, np.int64))
    plan.call("aten::index.Tensor_out", image, [None, zero], plan.output((1, 1, 2, 2)))
    large = plan.output((1, 1, 4, 4))
    plan.call("aten::upsample_nearest2d.vec_out", image, [4, 4], None, large)
    plan.move(plan.value(1), plan.take(0)[0])
    plan.take("text", True, 0.5, [True, False], [0.5])
    plan.plan.chains[0].stacktrace = [
        pte_schema.FrameList([pte_schema.Frame("net.py", 7, "forward", "y = x + 1")])
        for _ in plan.plan.chains[0].instructions
    ]
    plan.free(image)
    plan.plan.non_const_buffer_device = [pte_schema.NonConstBufferDevice(1, 0, 0)]
    plan.plan.container_meta_type = pte_schema.ContainerMetadata("in", "out")
    return build(plan, constants=constants)


def inline_constants(graph: Graph) -> None:
    """Move the constants of `with_everything` into the tables."""
    del graph["constant_segment"]
    zero = np.zeros(1, np.int64)
    graph["constant_buffer"] = [{"storage": a.tobytes()} for a in (ONES[:0], 3 * ONES, zero)]


def programs() -> Iterator[Sample]:
    """Yield programs with constants in a segment and in the tables, with a delegate in a segment,
    whose constants have names, and with one in the tables."""
    inputs = [ONES, np.array(True)]
    sample = program_sample(with_everything(), inputs)
    yield sample
    yield program_sample(sample.edited(inline_constants), inputs)
    folder = Recorded(VULKAN.folder)
    pte = (VULKAN.folder / "cnn.pte").read_bytes()
    yield program_sample(pte, folder.arrays("cnn")[0])
    row = next(row for row in mlx_rows.ROWS if row.node == "Add")
    content = mlx_nodes.graph([row.chain()], row.inputs, row.outputs())
    pte = mlx_nodes.program(content, row.inputs, row.outputs(), is_inline=True)
    yield program_sample(pte, row.inputs)


def program_sample(pte: bytes, inputs: Sequence[Any]) -> Sample:
    return file_sample("pte", "Program", pte, b"ET12", functools.partial(run, inputs))


def data_files() -> Iterator[Sample]:
    def shown(data: bytes) -> str:
        return run([ONES], external(), data_path=data)

    data = data_file(weight=np.arange(4, dtype=np.float32), other=b"bytes")
    yield file_sample("ptd", "FlatTensor", data, b"FT01", shown)


def bundles() -> Iterator[Sample]:
    def shown(data: bytes) -> str:
        bundle = BundledProgram.load(data)
        return f"{bundle.cases} {bundle.run()} {bundle.verify()}"

    plan = Plan()
    x, n, f, b = plan.input((2, 3)), *plan.take(1, 0.5, True)
    plan.plan.inputs += [n, f, b]
    plan.call("aten::relu.out", x, plan.output((2, 3)))
    plan.plan.outputs += [n, f, b]
    array = np.ones((2, 3), np.float32)
    case = ([array, 1, 0.5, True], [array, 1, 0.5, True])
    data = BundledProgram(build(plan), {"forward": [case]}).to_bytes()
    yield file_sample("bpte", "BundledProgram", data, b"BP08", shown)


TENSOR = {"scalar_type": 6, "sizes": [2], "strides": [1], "offset": 0}
LOGGED: list[Graph] = [
    {"val": 5, "tensor": TENSOR, "output": {"bool_val": 1}},
    {"val": 6, "tensor_list": {"tensors": [TENSOR, TENSOR]}},
    {"val": 1, "int_value": {"int_val": 3}},
    {"val": 2, "bool_value": {"bool_val": 1}},
    {"val": 3, "float_value": {"float_val": 0.5}},
    {"val": 4, "double_value": {"double_val": 0.5}},
]
"""Values of each kind."""
PLACE = {"name": "op", "chain_index": 0, "instruction_id": 1}
NODES: list[Graph] = [
    {**PLACE, "delegate_debug_id_int": 3},
    {**PLACE, "delegate_debug_id_int": -1, "delegate_debug_id_str": "node"},
]


def dumps() -> Iterator[Sample]:
    tables = _core._file_tables("etdump")
    times = {"delegate_debug_metadata": b"more", "start_time": 1, "end_time": 2}
    events: list[Graph] = [{"profile_event": {**node, **times}} for node in NODES]
    events += [{"debug_event": {**NODES[i % 2], "debug_entry": v}} for i, v in enumerate(LOGGED)]
    events += [{"allocation_event": {"allocator_id": 1, "allocation_size": 4}}]
    run = {"name": "Execute", "bundled_input_index": 0, "events": events}
    root = {"version": 0, "run_data": [{**run, "allocators": [{"name": "pool"}]}]}
    data = _flatbuffers.write(root, tables, "ETDump", "a test", identifier=b"ED00")

    def shown(data: bytes) -> str:
        runs = etdump_events.runs_of(data, bytes(1 << 10))
        return "".join(f"{one} {[vars(event) for event in one.events]}" for one in runs)

    yield file_sample("etdump", "ETDump", data, b"ED00", shown)


# ---- payloads --------------------------------------------------------------------------------


def recorded(layout: Format) -> Iterator[Sample]:
    folder = Recorded(layout.folder)
    for name in folder.names():
        if not name.startswith("vgf"):
            shown = functools.partial(run, folder.arrays(name)[0])
            edited = functools.partial(layout.edited, name)
            yield Sample(layout.tables, layout.root, edited, shown)


INTS: list[mlx_nodes.Node] = [
    ("SymSize", {"a": 0, "dim": -1, "out": 0}),
    ("ModInt", {"a": computed(0), "b": integer(3), "out": 1}),
    ("FloorDivideInt", {"a": computed(0), "b": integer(2), "out": 2}),
    ("MultiplyInt", {"a": computed(2), "b": computed(1), "out": 1}),
    ("Full", {"shape": [computed(1)], "v": computed(2), "scalar_type": 3, "out": 1}),
]
SPLIT: list[mlx_nodes.Node] = [("Split", {"x": 0, "outs": [1, 2], "sizes": [integer(2)]})]
TWOS = np.full(2, 2, np.int32)


def node_program(chain: Sequence[mlx_nodes.Node], inputs: Any, outputs: Any) -> bytes:
    start = [("AddInt", {"a": integer(2), "b": integer(3), "out": 0})]
    chains = [[*(start if chain[0][0] != "SymSize" else []), *chain]]
    content = mlx_nodes.graph(chains, inputs, outputs, values=3)
    return mlx_nodes.program(content, inputs, outputs)


def mlx() -> Iterator[Sample]:
    """Yield recorded programs, and each node."""
    yield from recorded(MLX)
    first = {(row.node, "is_vid" in str(row.fields)): row for row in reversed(mlx_rows.ROWS)}
    rows: list[Any] = [(row.chain(), row.inputs, row.outputs()) for row in first.values()]
    for chain, inputs, outputs in [*rows, (INTS, [ONES], [TWOS]), (SPLIT, [ONES], [ONES[:2]] * 2)]:
        edited = functools.partial(MLX.edited, node_program(chain, inputs, outputs))
        yield Sample(MLX.tables, MLX.root, edited, functools.partial(run, inputs))


def xnnpack_tables() -> Tables:
    """Each node is a member of the union, with the fields of its table."""
    text = (BACKENDS / "../xnnpack/nodes/nodes.def").read_text()
    nodes = dict(NODE.findall(text))
    unions = {
        "Quantization": ["PerChannel", "PerTensor", "PerToken", "PerGroup"],
        "Values": ["Tensor", "QuantizedTensor"],
        "Nodes": [*nodes],
    }
    tables = schema("../xnnpack/payload", unions, "tables.def")
    return tables | {name: tables[table] for name, table in nodes.items()}


def clamp() -> xnnpack_kinds.Graph:
    graph = xnnpack_kinds.Graph()
    graph.unary("Clamp", graph.input((2, 3)), graph.output((2, 3)), bounds=(-0.5, 0.5))
    return graph


def inline_buffers(graph: Graph, constants: bytes) -> None:
    """Move constants into the graph, as the first exporters wrote them."""
    graph["constant_buffer"] = [
        {"storage": constants[row.get("offset", 0) :][: row.get("size", 0)]}
        for row in graph.pop("constant_data")
    ]


def xnnpack() -> Iterator[Sample]:
    """Yield the first graph of each kind of node, and one with constants inside."""
    if not ENGINE:
        return
    layout = Format(Path(), xnnpack_tables(), "Graph", b"XN00", b"XH00")
    graphs = [clamp(), *(make(shapes[0]) for make, shapes in xnnpack_kinds.KINDS.values())]
    convolution = graphs[[*xnnpack_kinds.KINDS].index("Conv2d-fp32") + 1]
    content, constants = layout.read(convolution.payload())
    inline_buffers(content, constants)
    older = layout.write(content, has_header=False)
    for graph, payload in [(convolution, older), *((graph, graph.payload()) for graph in graphs)]:

        def edited(change: Change, graph: Any = graph, payload: bytes = payload) -> bytes:
            content, constants = layout.read(payload)
            change(content)
            data = layout.write(content, constants, payload[4:8] == layout.magic)
            return graph.program(payload=data.ljust(SPARE_BYTES, b"\0"))

        inputs = xnnpack_kinds.arguments(graph)
        yield Sample(layout.tables, layout.root, edited, functools.partial(run, inputs))


COREML = Recorded(BACKENDS / "../../tests/backends/coreml_programs")


def coreml() -> Iterator[Sample]:
    """Yield programs with state, with ranges of shapes, and with strings."""
    for name in ("cache_fp32", "mlp_dyn", "cnn_fp16"):
        pte = (COREML.folder / f"{name}.pte").read_bytes()
        shown = functools.partial(run, COREML.arrays(name)[0])
        edited = functools.partial(protobuf.edited, pte)
        yield Sample(protobuf.TABLES, "Model", edited, shown)


SECTIONS = {"ModuleTable": 16, "SequenceTable": 32}
"""Places of the offsets of sections in a VGF container, by their root tables."""
VGF_NAME = "vgf_mlp_fp"


def containers() -> Iterator[Sample]:
    """Yield the two sections that are FlatBuffers."""
    tables = schema("tosa", {"Code": ["Spirv"]}, "vgf.def")
    pte, at, payload = roomy((TOSA.folder / f"{VGF_NAME}.pte").read_bytes())
    shown = functools.partial(run, Recorded(TOSA.folder).arrays(VGF_NAME)[0])
    for root, place in SECTIONS.items():
        offset, size = struct.unpack_from("<QQ", payload, place)

        def edited(
            change: Change,
            root: str = root,
            place: int = place,
            flat: bytes = payload[offset:][:size],
        ) -> bytes:
            content = _flatbuffers.read(flat, tables, root)
            change(content)
            section = _flatbuffers.write(content, tables, root, "a test")
            data = bytearray(payload + bytes(-len(payload) % 16))
            struct.pack_into("<QQ", data, place, len(data), len(section))
            return filled(pte, at, bytes(data) + section)

        yield Sample(tables, root, edited, shown)


SAMPLES: dict[str, Callable[[], Iterator[Sample]]] = {
    ".pte": programs,
    ".ptd": data_files,
    ".bpte": bundles,
    "ETDump": dumps,
    "XNNPACK": xnnpack,
    "Vulkan": functools.partial(recorded, VULKAN),
    "native": functools.partial(recorded, NATIVE),
    "TOSA": functools.partial(recorded, TOSA),
    "VGF": containers,
    "MLX": mlx,
    "Core ML": coreml,
}
