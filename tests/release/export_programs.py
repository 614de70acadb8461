"""Small programs of a release, with eager's outputs: run by the python of its environment.

    PYTHON tests/release/export_programs.py FOLDER [NAME...]

Each row of ROWS is exported in a forked process with a time limit into FOLDER/NAME.pte (.bpte,
.ptd), and FOLDER/NAME.npz with in0, in1, ..., out0, ... of the first call, and step1_in0, ... of
the next ones. A row that the release cannot export leaves NAME.error with the reason.
"""

import argparse
import contextlib
import copy
import importlib.util
import os
import signal
import sys
import traceback
import warnings
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from torch import nn

PROCESSOR_SECONDS = 240
SECONDS = 800
"""Less than the silence after which this script is ended."""


class Row:
    """A model with calls, and how it is lowered."""

    def __init__(self, model, *calls, lower=None, **options):
        self.model = model.eval().requires_grad_(False)
        self.calls = calls
        """Positional inputs of each call."""
        self.lower = lower or portable
        self.options = options
        """Keyword arguments of `lower`."""


# ---- lowerings -------------------------------------------------------------------------------


def partitioners(name):
    """Return the partitioners of a backend."""
    if name == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner()]
    if name == "vulkan":
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

        return [VulkanPartitioner()]
    if name == "coreml":
        import coremltools
        from executorch.backends.apple.coreml.compiler import CoreMLBackend
        from executorch.backends.apple.coreml.partition import CoreMLPartitioner

        specs = CoreMLBackend.generate_compile_specs(
            minimum_deployment_target=coremltools.target.iOS17,
            compute_precision=coremltools.precision.FLOAT32,
        )
        return [CoreMLPartitioner(compile_specs=specs)]
    if name == "mlx":
        write_mlx_bindings()
        from executorch.backends.mlx import MLXPartitioner

        return [MLXPartitioner()]
    if name == "tosa":
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
        from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

        return [TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP"))]
    return []


def write_mlx_bindings():
    """Write the bindings of MLX's schema that the wheel lacks, by a file of this repository that
    imports the standard library alone."""
    path = Path(__file__).resolve().parents[2] / "executorch_c" / "check" / "mlx_bindings.py"
    spec = importlib.util.spec_from_file_location("mlx_bindings", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.install()


def passes(name):
    """Return the passes before the partitioner of a backend."""
    if name != "mlx":
        return None
    from executorch.backends.mlx.passes import get_default_passes

    return get_default_passes()


def portable(model, calls, backend="", shapes=None, external=False, initial=()):
    """Return a program, delegated to a backend, and the module that it equals; `initial`: buffers
    whose initial values the program keeps."""
    from executorch.exir import (
        EdgeCompileConfig,
        ExecutorchBackendConfig,
        to_edge_transform_and_lower,
    )
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    exported = torch.export.export(copy.deepcopy(model), calls[0], dynamic_shapes=shapes)
    partitioner = partitioners(backend) or None
    edge = to_edge_transform_and_lower(
        exported,
        transform_passes=passes(backend),
        partitioner=partitioner,
        compile_config=EdgeCompileConfig(
            _check_ir_validity=False, _skip_dim_order=backend == "mlx"
        ),
    )
    config = ExecutorchBackendConfig(external_constants=external)
    if initial:
        config.passes = [InitializedMutableBufferPass(list(initial))]
    return edge.to_executorch(config), model


def methods(model, calls):
    """Return a program of two methods, forward and twice."""
    from executorch.exir import to_edge

    other = nn.Sequential(model, model)
    exported = {
        n: torch.export.export(m, calls[0]) for n, m in (("forward", model), ("twice", other))
    }
    return to_edge(exported).to_executorch(), model


def load_out_variants():
    """Register the out variants of quantised operators; in 1.0 their library needs the other one
    first."""
    import executorch.extension.pybindings.portable_lib  # noqa: F401
    import executorch.kernels.quantized  # noqa: F401


def quantized(model, calls, backend="", dynamic=False):
    """Return the program of a module that PT2E quantises, and the module."""
    load_out_variants()
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    graph = torch.export.export(model, calls[0]).module()
    graph = prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))
    for call in calls:
        graph(*call)
    return portable(convert_pt2e(graph), calls, backend)


def torchao(model, calls, backend="xnnpack"):
    """Return the program of a module with int4 weights in groups, activations of int8."""
    from torchao.quantization import PerGroup, quantize_
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig as Config

    load_out_variants()
    quantize_(model, Config(weight_dtype=torch.int4, weight_granularity=PerGroup(32)))
    return portable(model, calls, backend)


def bundled(model, calls):
    """Return a bundled program."""
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer as serialized,
    )

    program, _ = portable(model, calls)
    cases = [MethodTestCase(inputs=list(c), expected_outputs=[model(*c)]) for c in calls]
    return serialized(BundledProgram(program, [MethodTestSuite("forward", cases)])), model


def llm(model, calls):
    """Return a program with ExecuTorch's operators of language models."""
    load_out_variants()
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401

    return portable(model, calls)


# ---- models ----------------------------------------------------------------------------------


class Function(nn.Module):
    """A function, with buffers."""

    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.function(self, *args)


def normal(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def mlp():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(-1))


def cnn():
    """Return a network whose layers have names: FuseBatchNormPass of 1.4 fails on numbers."""
    layers = {
        "conv": nn.Conv2d(3, 8, 3, padding=1),
        "norm": nn.BatchNorm2d(8),
        "relu": nn.ReLU(),
        "pool": nn.MaxPool2d(2),
        "depthwise": nn.Conv2d(8, 8, 3, groups=8),
        "clamp": nn.Hardtanh(0, 6),
        "mean": nn.AdaptiveAvgPool2d(1),
        "flat": nn.Flatten(),
        "linear": nn.Linear(8, 4),
    }
    return nn.Sequential(OrderedDict(layers))


def block():
    return nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)


def branches(_, x):
    return torch.cond(x.sum() > 0, lambda x: x * 2 + 1, lambda x: torch.sin(x), (x,))


def mapped(self, xs, y):
    from functorch.experimental.control_flow import map

    return map(lambda x, y: x.sin() + y * 2, xs, y)


def accumulated(self, x):
    self.total.add_(x)
    self.count.add_(1)
    return self.total / self.count


def cached(self, x, at):
    self.cache.index_put_((at,), x)
    return self.cache.clone()


def arithmetic(_, x, y):
    return x.exp() + y.sqrt() * torch.tanh(x), x.cumsum(0), torch.where(x > y, x, -y), x.std(0)


class Clamped(nn.Module):
    """Sums and products before and after limits, which releases fuse in their own ways."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x, y):
        sums = (x + y).clamp(-1, 1), x.clamp(0, 1) - y, (x * y).relu(), x.relu() / (y.abs() + 1)
        return *sums, self.conv(x).relu(), self.conv(x) + self.conv(y)


def integers(_, a, b, flags):
    return a // b, a % b, flags & (a > b), a.to(torch.uint8), torch.argmax(a, 0), a.sort(0)[0]


def halves(_, x, y):
    return x @ y, (x * 2).to(torch.bfloat16), x.softmax(-1)


def attended(self, q, k, v, start):
    start = start.item()
    torch._check_is_size(start)
    torch._check(start < 8)
    return torch.ops.llama.sdpa_with_kv_cache(
        q, k, v, self.keys, self.values, start, 1, None, 0.0, True, None
    )


def flat_cached(self, q, k, v, start):
    start = start.item()
    torch._check_is_size(start)
    torch._check(start < 8)
    torch.ops.llama.update_cache(k, self.keys, start)
    torch.ops.llama.update_cache(v, self.values, start)
    return torch.ops.llama.custom_sdpa(q, self.keys, self.values, start, None, 0.0, True, None)


def heads(operator):
    model = Function(operator, keys=torch.zeros(1, 8, 2, 8), values=torch.zeros(1, 8, 2, 8))
    calls = [
        (
            normal(1, 1, 4, 8 + 0 * i) + i,
            normal(1, 1, 2, 8) - i,
            normal(1, 1, 2, 8) + 2 * i,
            torch.tensor([i]),
        )
        for i in range(3)
    ]
    return Row(model, *calls, lower=llm)


def image():
    return (normal(1, 3, 8, 8),)


def pair():
    return normal(1, 3, 4, 4), normal(1, 3, 4, 4).flip(3)


def totals(start, **options):
    model = Function(accumulated, total=torch.full((4,), start), count=torch.zeros(1))
    return Row(model, *((normal(4) + i,) for i in range(3)), **options)


ROWS = {
    "mlp": lambda: Row(mlp(), (normal(2, 8),)),
    "cnn": lambda: Row(cnn(), image()),
    "block": lambda: Row(block(), (normal(1, 5, 16),)),
    "dynamic": lambda: Row(
        mlp(),
        *((normal(n, 8),) for n in (3, 1, 8)),
        shapes=({0: torch.export.Dim("n", min=1, max=8)},),
    ),
    "embedding": lambda: Row(nn.Embedding(32, 8), (torch.tensor([[1, 31, 0]]),)),
    "arithmetic": lambda: Row(Function(arithmetic), (normal(4, 6), normal(4, 6, 1)[..., 0].abs())),
    "integers": lambda: Row(
        Function(integers),
        (
            torch.arange(-6, 6).reshape(4, 3),
            torch.tensor([2, -3, 5]),
            torch.tensor([True, False, True]),
        ),
    ),
    "halves": lambda: Row(Function(halves), (normal(3, 4).half(), normal(4, 5).half())),
    "lstm": lambda: Row(nn.LSTM(6, 8, batch_first=True), (normal(1, 4, 6),)),
    "methods": lambda: Row(nn.Linear(4, 4), (normal(2, 4),), lower=methods),
    "cond": lambda: Row(Function(branches), (normal(4).abs(),), (-normal(4).abs(),)),
    "map": lambda: Row(Function(mapped), (normal(3, 4), normal(4))),
    "state": lambda: totals(0.0),
    "state_initial": lambda: totals(0.25, initial=["total"]),
    "cache": lambda: Row(
        Function(cached, cache=torch.zeros(6, 4)),
        *((normal(2, 4) + i, torch.tensor([i, i + 2])) for i in range(3)),
    ),
    "ptd": lambda: Row(mlp(), (normal(2, 8),), external=True),
    "bundled": lambda: Row(mlp(), (normal(2, 8),), (normal(3, 8)[:2],), lower=bundled),
    "int8": lambda: Row(cnn(), image(), lower=quantized),
    "sdpa_with_kv_cache": lambda: heads(attended),
    "custom_sdpa": lambda: heads(flat_cached),
    "xnnpack_mlp": lambda: Row(mlp(), (normal(2, 8),), backend="xnnpack"),
    "xnnpack_cnn": lambda: Row(cnn(), image(), backend="xnnpack"),
    "xnnpack_block": lambda: Row(block(), (normal(1, 5, 16),), backend="xnnpack"),
    "xnnpack_ptd": lambda: Row(mlp(), (normal(2, 8),), backend="xnnpack", external=True),
    "xnnpack_int8": lambda: Row(cnn(), image(), lower=quantized, backend="xnnpack"),
    "xnnpack_dynamic": lambda: Row(
        mlp(), (normal(2, 8),), lower=quantized, backend="xnnpack", dynamic=True
    ),
    "xnnpack_8da4w": lambda: Row(
        nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)),
        (normal(2, 32),),
        lower=torchao,
    ),
    "vulkan_mlp": lambda: Row(mlp(), (normal(2, 8),), backend="vulkan"),
    "vulkan_cnn": lambda: Row(cnn(), image(), backend="vulkan"),
    "xnnpack_clamp": lambda: Row(Clamped(), pair(), backend="xnnpack"),
    "vulkan_clamp": lambda: Row(Clamped(), pair(), backend="vulkan"),
    "coreml_mlp": lambda: Row(mlp(), (normal(2, 8),), backend="coreml"),
    "mlx_mlp": lambda: Row(mlp(), (normal(2, 8),), backend="mlx"),
    "mlx_block": lambda: Row(block(), (normal(1, 5, 16),), backend="mlx"),
    "tosa_mlp": lambda: Row(mlp(), (normal(2, 8),), backend="tosa"),
}
"""Programs by name; what begins with a backend's name is delegated to it."""
FIRST_RELEASES = {"mlx_mlp": "1.5.1", "mlx_block": "1.5.1", "tosa_mlp": "1.5.1"}
"""Oldest releases in golden/ of rows that came later than the others."""
PACKAGES = {"tosa_mlp": "tosa_serializer"}
"""Packages that rows need beside executorch: without them they are left out."""


# ---- export ----------------------------------------------------------------------------------


def flat(values):
    """Return the tensors of a result as arrays; bfloat16 as its bits."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return [
        (
            t.view(torch.int16).numpy().view(np.uint16) if t.dtype == torch.bfloat16 else t.numpy()
        ).copy()
        for t in leaves
    ]


def export(name, folder):
    """Write the files of a row."""
    torch.manual_seed(0)
    row = ROWS[name]()
    with torch.no_grad():
        program, module = row.lower(copy.deepcopy(row.model), row.calls, **row.options)
        arrays, module = {}, copy.deepcopy(module)
        for step, call in enumerate(row.calls):
            head = f"step{step}_" if step else ""
            arrays |= {f"{head}in{i}": array for i, array in enumerate(flat(call))}
            arrays |= {f"{head}out{i}": array for i, array in enumerate(flat(module(*call)))}
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    if isinstance(program, bytes):
        (folder / f"{name}.bpte").write_bytes(program)
        return
    (folder / f"{name}.pte").write_bytes(program.buffer)
    data = getattr(program, "_tensor_data", {})
    for blob in data.values():
        (folder / f"{name}.ptd").write_bytes(bytes(blob))


def child(name, folder):
    """Export a row in this process, which ends after it."""
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    signal.alarm(SECONDS)
    try:
        export(name, folder)
    except BaseException as error:
        traceback.print_exc()
        while error.__cause__ is not None:
            error = error.__cause__
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        (folder / f"{name}.error").write_text(f"{reason}\n")
        os._exit(1)
    os._exit(0)


def load_exporter():
    """Import what the children need, once. 1.0 looks for its flatc in the path."""
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    import executorch.exir  # noqa: F401

    with contextlib.suppress(ImportError):
        import executorch.backends.xnnpack.partition.xnnpack_partitioner  # noqa: F401


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows; default: all")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.folder.mkdir(parents=True, exist_ok=True)
    load_exporter()
    has = importlib.util.find_spec
    for name in args.names or [name for name in ROWS if has(PACKAGES.get(name, "executorch"))]:
        print(name, flush=True)
        if (process := os.fork()) == 0:
            child(name, args.folder)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code < 0:
            (args.folder / f"{name}.error").write_text(f"ended by signal {-code}\n")


if __name__ == "__main__":
    main()
