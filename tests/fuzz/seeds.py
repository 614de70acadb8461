"""Write the seed files of coverage-guided fuzzing, by target.

The data files of `ptd` belong to `PROGRAM`, a small program with external weights.
"""

import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "backends" / "xnnpack"))

from tests.fuzz.record_programs import record

CORPUS = HERE / "corpus"
PROGRAM = CORPUS / "ptd_program.pte"
LLM = "llama__", "executorch_llm"
LARGEST = 1 << 16
"""Maximum size of a seed in bytes: larger seeds are slow and add no coverage."""


def copy_recorded(backend: str, folder: Path) -> None:
    """Copy the recorded programs of a backend's tests."""
    for path in sorted((HERE.parent / f"backends/{backend}_programs").glob("*.pte")):
        (folder / path.name).write_bytes(path.read_bytes())


def pte(folder: Path) -> None:
    """Write all programs of make_programs.py: models, each operator, hostile values."""
    from tests.fuzz.make_programs import write_all

    write_all(folder)


def external() -> tuple[bytes, bytes]:
    """Return a program with two linear layers and a state, and the .ptd with their weights."""
    import torch
    from tests.exports import manager

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)
            self.register_buffer("total", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.second(self.first(x).relu())
            self.total.add_(y.sum(0))
            return y + self.total

    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=8)
    values = manager(
        Net(), torch.ones(2, 4), external_constants=True, dynamic_shapes={"x": {0: rows}}
    )
    [data] = values._tensor_data.values()
    return bytes(values.buffer), bytes(data)


def ptd(folder: Path) -> None:
    """Write the weights of PROGRAM, and variants without alignment or layouts."""
    from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
    from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

    (folder / "weights.ptd").write_bytes(external()[1])
    rows = {"a": DataEntry(0, 1, None), "first.weight": DataEntry(1, 16, None)}
    program = FlatTensorSerializer().serialize(DataPayload([b"abc", bytes(80)], rows))
    (folder / "blobs.ptd").write_bytes(bytes(program))


def bpte(folder: Path) -> None:
    """Write bundled programs of the models with recorded calls."""
    import contextlib

    from executorch_c.bundled import BundledProgram
    from tests.fuzz.make_programs import MODELS
    from tests.models.zoo import load

    for name in MODELS:
        model = load(name)
        cases = {m: [(c.inputs, c.outputs) for c in calls] for m, calls in model.calls.items()}
        with contextlib.suppress(TypeError):  # the format does not support None and strings
            (folder / f"{name}.bpte").write_bytes(BundledProgram(model.pte, cases).to_bytes())


def xnnpack(folder: Path) -> None:
    """Write a program for each node of the delegate in each of its datatypes."""
    from tests.backends import xnnpack_flow
    from tests.backends import xnnpack_random
    from tests.backends import xnnpack_zoo

    for row in xnnpack_zoo.TABLE.rows:
        (folder / f"{row.id}.pte").write_bytes(xnnpack_flow.load(row).pte)
    for seed in range(20):  # moves that are elided, chains that become tables
        (folder / f"random_{seed}.pte").write_bytes(xnnpack_random.Random(seed).graph.program())


def vulkan(folder: Path) -> None:
    """Write programs of VulkanBackend: the recorded ones, and each row that is exported."""
    from tests.models import vulkan_zoo

    copy_recorded("vulkan", folder)
    for row in vulkan_zoo.ROWS:
        (folder / f"{row.id}.pte").write_bytes(vulkan_zoo.load(row).pte)


def tosa(folder: Path) -> None:
    """Write programs of TOSABackend and VgfBackend: the recorded ones, and each operator."""
    import numpy as np
    from tests.backends import test_tosa_reference as operators
    from tests.backends.tosa_graphs import Graph

    copy_recorded("tosa", folder)
    record(["tests/backends/test_tosa_control_flow.py"], folder)
    for number, build in enumerate(operators.CASES.values()):
        graph = Graph()
        build(graph, np.random.default_rng(0))
        program = graph.program(extract_delegate_segments=True)
        (folder / f"operator_{number}.pte").write_bytes(program)


def cadence(folder: Path) -> None:
    """Write the programs of the tests of Cadence's operators, and the recorded ones."""
    record(["tests/backends/test_cadence.py", "tests/backends/test_cadence_programs.py"], folder)
    copy_recorded("cadence", folder)


def cortex_m(folder: Path) -> None:
    """Write the programs of the tests of Cortex-M's operators (needs the extra `arm`)."""
    record(["tests/backends/test_cortex_m.py"], folder)


def calls(folder: Path) -> None:
    """Write programs whose calls run as one, are folded, or share memory."""
    names = "fuse fold join merge merge_random delegate_at_load delegated_integers".split()
    record([f"tests/runtime/test_{name}.py" for name in names], folder)


def llm(folder: Path) -> None:
    """Write calls of the operators of language models, and programs with attention."""
    from tests.fuzz import random_calls
    from tests.fuzz import sample_calls

    for kind, module in (("random", random_calls), ("sample", sample_calls)):
        for name, data in module.programs(1):  # type: ignore[attr-defined]
            if name.startswith(LLM):
                (folder / f"{kind}_{name}.pte").write_bytes(data)
    names = "runtime/test_attend", "runtime/test_attend_random", "kernels/test_llm_programs"
    record([f"tests/{name}.py" for name in names], folder)


def coreml(folder: Path) -> None:
    """Write programs of the models of coreml_zoo.py (needs coremltools); the recorded ones are
    files of the tree."""
    import importlib.util
    import torch

    if importlib.util.find_spec("coremltools") is None:
        return
    from tests.models import coreml_zoo

    for row in coreml_zoo.ROWS:
        exported = torch.export.export(row.make().eval(), row.inputs())
        (folder / f"{row.id}.pte").write_bytes(coreml_zoo.lower(exported, row.ios, row.half))


def mlx(folder: Path) -> None:
    """Write programs of MLX: the recorded ones, one of each node's row, random graphs."""
    from tests.backends import mlx_edges, mlx_nodes, mlx_rows
    from tests.fuzz import random_graphs

    copy_recorded("mlx", folder)
    random_graphs.write(folder, random_graphs.GRAPHS_PER_HOST * 5)
    for i, row in enumerate([*mlx_rows.ROWS, *mlx_edges.ROWS]):
        graph = mlx_nodes.graph([row.chain()], row.inputs, row.outputs(), values=1)
        pte = mlx_nodes.program(graph, row.inputs, row.outputs())
        (folder / f"{row.node}_{i}.pte").write_bytes(pte)


def native(folder: Path) -> None:
    """Write programs of NativeBackend: one of each model of its tests."""
    from tests.backends import native_flow
    import torch

    for name, (model, inputs) in native_flow.models().items():
        (folder / f"{name}.pte").write_bytes(native_flow.export(model, inputs))
    for model in (native_flow.Branches(), native_flow.Nested()):
        pte = native_flow.export_whole(model, (torch.rand(2, 4),))
        (folder / f"{type(model).__name__}.pte").write_bytes(pte)


def openvino(folder: Path) -> None:
    """Write the recorded programs with the text of their models: it is xor-ed with a key that
    follows from it."""
    from tests.backends import openvino_blob
    from executorch_c import Runtime

    for name in openvino_blob.NAMES:
        data = openvino_blob.pte(name)
        payload = Runtime.get().load_program(data)._payload("forward", 0)
        blob = openvino_blob.unpack(payload)
        plain = payload[: -len(blob.model)] + blob.model
        (folder / f"{name}.pte").write_bytes(data.replace(payload, plain))


def package(_: Path) -> None:
    """Write nothing: the recorded native packages are files of the tree."""


TARGETS: dict[str, Callable[[Path], None]] = {
    "pte": pte,
    "ptd": ptd,
    "bpte": bpte,
    "cadence": cadence,
    "calls": calls,
    "coreml": coreml,
    "cortex_m": cortex_m,
    "llm": llm,
    "mlx": mlx,
    "native": native,
    "openvino": openvino,
    "package": package,
    "tosa": tosa,
    "vulkan": vulkan,
    "xnnpack": xnnpack,
}


RECORDED = {
    "coreml": "backends/coreml_programs/*.pte",
    "mlx": "backends/mlx_programs/*.pte",
    "openvino": "backends/programs/openvino_*.pte",
    "package": "backends/native_packages/*.ptn",
}
"""Programs of the tree, of targets that cannot export any, or few."""


def kept_files(target: str) -> list[Path]:
    """Return the files of a target in the tree: its corpus, its regression files, and the recorded
    programs of a target without exported seeds."""
    tests = HERE.parent
    return [
        *sorted((CORPUS / target).glob("*")),
        *sorted(tests.glob(f"regression/*.{target}")),
        *(sorted(tests.glob(RECORDED[target])) if target in RECORDED else ()),
    ]


def write_seeds(target: str, folder: Path) -> int:
    """Write the seeds of a target and its files of the corpus; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    TARGETS[target](folder)
    for path in kept_files(target):
        (folder / f"kept_{path.name}").write_bytes(path.read_bytes())
    for path in folder.iterdir():
        if path.stat().st_size > LARGEST:
            path.unlink()
    return sum(1 for _ in folder.iterdir())
