"""The official export flows by name, one row each, and the program of a check."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from executorch_c import _extras
from executorch_c._core import Method, Program
from executorch_c._modules import fresh
from executorch_c._programs import ProgramFile, opened
from executorch_c._render.text import unknown
from executorch_c.bundled import BundledProgram
from executorch_c.check import lowering
from executorch_c.check import vendor_flows as vendor
from executorch_c.check.lowering import quiet
from executorch_c.compare.limits import FLOAT_RANGE_MIN_SQNR_DB, MIN_SQNR_DB
from executorch_c.report import Origin

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of the model."""


@dataclass(frozen=True)
class Samples:
    """The calls that a flow calibrates on."""

    example: Call
    others: Callable[[], Iterator[Call]] = lambda: iter(())
    """Yields the calls of the user's, which may be read one by one."""

    def __iter__(self) -> Iterator[Call]:
        yield self.example
        yield from self.others()


def _portable() -> list[Any]:
    return []


def _xnnpack() -> list[Any]:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return [XnnpackPartitioner()]


def _vulkan() -> list[Any]:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return [VulkanPartitioner({"alias_buffer_mutations": True})]


def _coreml(target: str = "iOS17") -> list[Any]:
    import coremltools
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner

    specs = CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=getattr(coremltools.target, target),
        compute_precision=coremltools.precision.FLOAT32,
    )
    return [CoreMLPartitioner(compile_specs=specs)]


def _lower_coreml(exported: Any, method: str) -> Any:
    """Return the program for iOS 17; of a model with state for iOS 18, the first that has it."""
    has_state = False
    if exported.graph_signature.buffers:  # those that operators in place write are known after them
        with quiet():
            has_state = bool(exported.run_decompositions({}).graph_signature.buffers_to_mutate)
    return lowering.lower(exported, method, _coreml("iOS18" if has_state else "iOS17"))


def _openvino() -> list[Any]:
    from executorch.backends.openvino import OpenvinoPartitioner
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    return [OpenvinoPartitioner([CompileSpec("device", b"CPU")])]


def _openvino_int8() -> Any:
    from executorch.backends.openvino import OpenVINOQuantizer

    return OpenVINOQuantizer()


def _tosa(spec: str) -> Callable[[], list[Any]]:
    def partitioners() -> list[Any]:
        import executorch.kernels.quantized  # noqa: F401  quantize_... of inputs is not delegated
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
        from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

        return [TOSAPartitioner(TosaCompileSpec(spec))]

    return partitioners


def _arm_quantizer(spec: str, config: str) -> Callable[[], Any]:
    def quantizer() -> Any:
        from executorch.backends.arm.quantizer import arm_quantizer as arm
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

        return arm.TOSAQuantizer(TosaCompileSpec(spec)).set_global(getattr(arm, config)())

    return quantizer


def _vgf(spec: str) -> Callable[[], list[Any]]:
    def partitioners() -> list[Any]:
        import executorch.kernels.quantized  # noqa: F401  quantize_... of inputs is not delegated
        from executorch.backends.arm.vgf import VgfCompileSpec, VgfPartitioner, model_converter

        converter = Path(sys.executable).with_name(model_converter.MODEL_CONVERTER_BINARY)
        if model_converter.find_model_converter_binary() is None and converter.is_file():
            os.environ["MODEL_CONVERTER_PATH"] = str(converter)  # the environment is not in PATH
        return [VgfPartitioner(VgfCompileSpec(spec))]

    return partitioners


def _symmetric(dynamic: bool) -> Callable[[], Any]:
    def quantizer() -> Any:
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack

        config = xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
        return xnnpack.XNNPACKQuantizer().set_global(config)

    return quantizer


def _cortex_m() -> Any:
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import (  # noqa: F401
        CortexMPassManager,  # before the quantizer: its package is imported in a circle
    )
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    return CortexMQuantizer()


def _lower_cortex_m(exported: Any, method: str) -> Any:
    """Return the program for a Cortex-M55: no delegate, operators of CMSIS-NN."""
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
    from executorch.exir import to_edge

    with quiet():
        edge = to_edge({method: exported}, compile_config=cortex_m_edge_compile_config())
        target = CortexMTargetConfig(cpu=CortexM.M55)
        passes = CortexMPassManager(
            edge.exported_program(method), CortexMPassManager.pass_list, target_config=target
        )
        edge._edge_programs[method] = passes.transform()
        return edge.to_executorch()


def _cadence_compiler() -> Any:
    """Return the compiler of the Cadence flow, which imports `override` from typing: Python has it
    since 3.12."""
    import typing

    from typing_extensions import override

    lacks = not hasattr(typing, "override")
    if lacks:
        setattr(typing, "override", override)  # noqa: B010
    try:
        from executorch.backends.cadence.aot import (
            compiler,
            ref_implementations,  # noqa: F401  the lowered graph runs in eager
        )
    finally:
        if lacks:
            delattr(typing, "override")
    return compiler


def _cadence() -> Any:
    return _cadence_compiler().CadenceDefaultQuantizer()


def _decompose_cadence(exported: Any) -> Any:
    """Return the graph that the quantizer knows, as the flow's own trace makes it: it looks for
    patterns of modules and functions, which only strict export keeps."""
    import torch
    from torch._decomp import remove_decompositions

    table = torch.export.default_decompositions()
    kept = _cadence().get_ops_to_preserve_from_decomposition()
    remove_decompositions(table, [*kept, torch.ops.aten._safe_softmax.default])
    args, kwargs = exported.example_inputs
    with torch.no_grad():
        strict = torch.export.export(exported.module(), args, kwargs, strict=True)
    return strict.run_decompositions(table)


def _lower_cadence(exported: Any, method: str) -> Any:
    """Return the program for a DSP of Cadence: no delegate, operators of its libraries."""
    compiler = _cadence_compiler()
    with quiet(), contextlib.redirect_stdout(io.StringIO()):
        fused = compiler.apply_pre_edge_transform_passes(copy.deepcopy(exported), _cadence())
        return compiler._lower_ep_to_cadence_gen_etrecord(fused)


@dataclass(frozen=True)
class Flow:
    """A flow: optional quantisation, export, optional delegation."""

    name: str
    about: str
    partitioners: Callable[[], list[Any]]
    quantizer: Callable[[], Any] | None = None
    min_sqnr_db: float = MIN_SQNR_DB
    """Minimum signal-to-quantisation-noise ratio against the float model of a quantised flow."""
    lower: Callable[[Any, str], Any] | None = None
    """Returns the program of an exported method; None: delegated to the partitioners' backends."""
    folds_weights: bool = True
    """False: the backend quantises the weights itself, from the graph's float ones."""
    decompose: Callable[[Any], Any] | None = None
    """Returns the exported program that the quantizer annotates; None: unchanged."""
    has_guards: bool = True
    """False: the quantizer needs a graph without the checks of the inputs' shapes."""
    is_static: bool = False
    """True: the flow's own passes fail on symbolic shapes."""
    packages: tuple[str, ...] = ()
    """Optional packages that the flow imports, besides torch and executorch."""
    keeps_weights: bool = False
    """True: neither the passes nor the backend write to the weights of an exported program."""
    leaves_out: str = ""
    """What a check of the flow does not test: a note of its report."""

    @property
    def is_installed(self) -> bool:
        """True if the optional packages of the flow are installed."""
        return all(map(_extras.is_installed, self.packages))


ARM_TARGETS = (
    ("tosa", "delegated to TOSA", "TOSA-1.0+INT", "", _tosa, ()),
    (
        "ethos-u55",
        "the TOSA graph that Vela compiles for an Ethos-U55",
        "TOSA-1.0+INT+int16+int4+u55",
        "int8",
        _tosa,
        (),
    ),
    (
        "ethos-u85",
        "the TOSA graph that Vela compiles for an Ethos-U85",
        "TOSA-1.0+INT+int16+int4+cf",
        "int8",
        _tosa,
        (),
    ),
    ("vgf", "delegated to VGF", "TOSA-1.0+INT", "", _vgf, ("model_converter",)),
)
"""Names, descriptions, TOSA specifications, the precision that a flow's name omits, partitioners
and packages of the flows of Arm's devices."""

ARM_PRECISIONS = (
    ("int8", "int8", "get_symmetric_quantization_config", ""),
    ("a8w4", "int8, weights of 4 bits", "get_symmetric_a8w4_quantization_config", "+int4"),
    ("a16w8", "int16, weights of int8", "get_symmetric_a16w8_quantization_config", "+int16"),
)
"""Names, descriptions and functions of the precisions, and the extensions of TOSA that they
need."""


def arm_rows() -> Iterator[tuple[str, str, str, tuple[Any, ...], str]]:
    """Yield the name of each integer flow, its TOSA specification and function of the precision,
    its row of ARM_TARGETS and the description of the precision."""
    for row, (name, values, config, extension) in product(ARM_TARGETS, ARM_PRECISIONS):
        target, _, spec, plain, *_ = row
        full = spec if extension in spec else spec + extension
        yield target if name == plain else f"{target}-{name}", full, config, row, values


def _arm_flows() -> Iterator[Flow]:
    """Yield the integer flows of each device of Arm, in each precision."""
    for flow, spec, config, (_, about, _, _, partitioner, packages), values in arm_rows():
        yield Flow(
            flow,
            f"PT2E: {values}, {about}; interpreted on the CPU",
            partitioner(spec),
            _arm_quantizer(spec, config),
            has_guards=False,
            is_static=True,
            packages=("tosa_serializer", *packages),
        )


FLOWS = {
    flow.name: flow
    for flow in (
        Flow("portable", "no delegate", _portable, keeps_weights=True),
        Flow("xnnpack", "delegated to XNNPACK, in floats", _xnnpack, keeps_weights=True),
        Flow(
            "xnnpack-int8",
            "PT2E: int8 by channel, calibrated on the example and real inputs",
            _xnnpack,
            _symmetric(dynamic=False),
        ),
        Flow(
            "xnnpack-dynamic",
            "PT2E: int8 weights by channel, activations quantised as they come",
            _xnnpack,
            _symmetric(dynamic=True),
            min_sqnr_db=FLOAT_RANGE_MIN_SQNR_DB,
        ),
        Flow("vulkan", "delegated to Vulkan, in floats; interpreted on the CPU", _vulkan),
        Flow(
            "vulkan-int8",
            "PT2E: as xnnpack-int8, delegated to Vulkan",
            _vulkan,
            _symmetric(dynamic=False),
        ),
        Flow(
            "coreml",
            "delegated to Core ML in float32; interpreted on the CPU",
            _coreml,
            lower=_lower_coreml,
            packages=("coremltools",),
        ),
        Flow(
            "coreai",
            "delegated to Core AI, in floats, on its engine",
            _portable,
            lower=lowering.coreai,
            packages=("coreai_torch",),
        ),
        Flow(
            "openvino",
            "delegated to OpenVINO, in floats, on its engine",
            _openvino,
            packages=("openvino", "nncf"),
        ),
        Flow(
            "openvino-int8",
            "PT2E: int8 by channel, delegated to OpenVINO",
            _openvino,
            _openvino_int8,
            folds_weights=False,
            packages=("openvino", "nncf"),
        ),
        Flow(
            "tosa",
            "delegated to TOSA in floats; interpreted on the CPU",
            _tosa("TOSA-1.0+FP"),
            is_static=True,
            packages=("tosa_serializer",),
        ),
        Flow(
            "vgf",
            "delegated to VGF in floats; interpreted on the CPU",
            _vgf("TOSA-1.0+FP"),
            is_static=True,
            packages=("tosa_serializer", "model_converter"),
        ),
        *_arm_flows(),
        Flow(
            "cortex-m",
            "PT2E: int8, operators of CMSIS-NN for a Cortex-M55",
            _portable,
            _cortex_m,
            lower=_lower_cortex_m,
            has_guards=False,
            packages=("tosa_serializer",),
        ),
        Flow(
            "mlx",
            "delegated to MLX, in floats; interpreted on the CPU",
            _portable,
            lower=lowering.mlx,
        ),
        Flow(
            "native",
            "delegated to portable graphs of ExecuTorch 1.5; interpreted on the CPU",
            _portable,
            lower=lowering.native,
        ),
        Flow(
            "native-package",
            "a native package (.ptn) of ExecuTorch 1.5: one portable graph, interpreted on the CPU",
            _portable,
            lower=lowering.native_package,
        ),
        Flow(
            "cadence",
            "PT2E: int8, operators of the libraries of Cadence's DSPs",
            _portable,
            _cadence,
            lower=_lower_cadence,
            decompose=_decompose_cadence,
            is_static=True,
        ),
        *(Flow(partitioners=_portable, **row) for row in vendor.rows()),
    )
}


@dataclass
class Subject:
    """A program to check, and its export."""

    label: str
    """The name of the flow, or the type of a ready program."""
    program: Program | Method
    exported: Any = None
    """The ExportedProgram with the shapes of inputs; None for a file."""
    source: Any = None
    """The ExportedProgram that was lowered, as returned by torch.export; None where that is not
    known."""
    quantized: Any = None
    """The quantised eager graph, of flows that quantise: the reference of the program."""
    quantizes: bool = False
    min_sqnr_db: float = MIN_SQNR_DB
    """Minimum signal-to-quantisation-noise ratio against the float model."""
    bundled: BundledProgram | None = None
    origin: Origin | None = None
    """The program's file."""
    opened: ProgramFile | None = None
    """The program and its source."""
    notes: list[str] = field(default_factory=list)

    def complete(self, exported: Any, note: str | None = None) -> None:
        """Set the export of an existing program to the model's, if known (not None); add a note."""
        self.notes += [note] if note else []
        if self.exported is None:
            self.exported = exported
        if self.source is None and not self.quantizes:
            self.source = exported


def export(model: Any, call: Call, dynamic_shapes: Any) -> Any:
    """Return torch.export's program of a model."""
    import torch

    with torch.no_grad(), quiet():
        return torch.export.export(fresh(model), *call, dynamic_shapes=dynamic_shapes)


def prepared(flow: Flow, exported: Any, samples: Iterable[Call], quantizer: Any) -> Any:
    """Return the graph with the observers of a quantiser, which have seen samples."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    with torch.no_grad(), quiet():
        guards = {} if flow.has_guards else {"check_guards": False}
        if flow.decompose is not None:
            exported = flow.decompose(exported)
        graph = prepare_pt2e(fresh(exported.module(**guards)), quantizer)
        for args, kwargs in samples:
            graph(*args, **kwargs)
        return graph


def _quantize(flow: Flow, exported: Any, samples: Iterable[Call]) -> Any:
    """Return the quantised graph, calibrated on samples."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    assert flow.quantizer is not None
    graph = prepared(flow, exported, samples, flow.quantizer())
    with torch.no_grad(), quiet():
        return convert_pt2e(graph, fold_quantize=flow.folds_weights)


def _lower(exported: Any, flow: Flow, method: str) -> Any:
    """Return the program of a flow; operators that are not core ATen are allowed."""
    if flow.lower is not None:
        return flow.lower(exported, method)
    if not lowering.is_large(exported):
        return lowering.lower(exported, method, flow.partitioners())
    with lowering.sharing_weights(exported) if flow.keeps_weights else contextlib.nullcontext():
        path = lowering.written(lowering.lower(exported, method, flow.partitioners()))
    lowering.free_graphs()
    return path


def undelegated(exported: Any, method: str) -> Any:
    """Return the program of an exported method without delegates."""
    import executorch.kernels.quantized  # noqa: F401  the out variants of quantised operators

    return lowering.lower(exported, method, [])


def _from_flow(
    flow: Flow, exported: Any, dynamic_shapes: Any, samples: Iterable[Call], method: str
) -> Subject:
    source, graph = exported, None
    if flow.is_static and exported.range_constraints:
        raise ValueError(f"`dynamic_shapes`: the flow '{flow.name}' lowers static shapes only")
    if flow.quantizer is not None:
        graph = _quantize(flow, exported, samples)
        shapes = dynamic_shapes if dynamic_shapes is not None else _shapes_of(exported)
        source = export(graph, next(iter(samples)), shapes)
    lowered = _lower(source, flow, method)
    result = _ready(flow.name, lowered, exported, method, None)
    result.quantized, result.quantizes = graph, flow.quantizer is not None
    result.min_sqnr_db, result.source = flow.min_sqnr_db, source
    result.notes += [flow.leaves_out] if flow.leaves_out else []
    return result


def _shapes_of(exported: Any) -> Any:
    """Return None as the dynamic_shapes of an exported program without any. Raises ValueError for
    dynamic ones."""
    if not exported.range_constraints:
        return None
    raise ValueError(
        "`model` is an ExportedProgram with dynamic shapes: pass the nn.Module and "
        "`dynamic_shapes`, with which a quantised flow exports the quantised graph"
    )


def unknown_flow(flow: str) -> str:
    """Return what is wrong with a name that is no flow's: "'x', expected one of portable, ..."."""
    if os.path.exists(flow):
        return f"'{flow}', a file: pass it as `program`"
    return unknown(flow, FLOWS)


def _label(source: object) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else type(source).__name__


def _ready(label: str, source: Any, exported: Any, method: str, data_path: Any) -> Subject:
    """Return a ready program as a subject."""
    file = opened(source, data_path)
    if file.manager is not None and exported is None:
        methods = getattr(file.manager, "methods", ())
        if methods and method not in methods:
            names = ", ".join(sorted(methods))
            raise KeyError(f"the program has no method '{method}'; its methods: {names}")
        exported = file.manager.exported_program(method)
    return Subject(
        label,
        file.method or file.program,
        exported,
        bundled=file.bundled,
        origin=file.origin,
        opened=file,
    )


def subject(
    flow: Any,
    program: Any,
    exporter: Callable[[], Any],
    *,
    dynamic_shapes: Any,
    samples: Iterable[Call],
    method: str,
    data_path: Any,
    say: Callable[[str], None],
) -> Subject:
    """Return the program to check: a ready one, or the one that a flow makes from the model.

    Args:
        flow: A name of FLOWS, a Flow, or a function from ExportedProgram to a program; None for a
            ready program.
        exporter: Exports the model.

    Raises ValueError for an unknown name, TypeError for another object, ImportError without an
    optional package of the flow, and the exceptions of exporting and loading.
    """
    if program is not None:
        exported = exporter() if dynamic_shapes is not None else None
        return _ready(_label(program), program, exported, method, data_path)
    row = FLOWS.get(flow) if isinstance(flow, str) else flow
    if isinstance(row, Flow):
        _extras.require(f"flow '{row.name}'", *row.packages)
        say(f"exporting ({row.name})")
        return _from_flow(row, exporter(), dynamic_shapes, samples, method)
    if isinstance(flow, str):
        raise ValueError("`flow` is " + unknown_flow(flow))
    if not callable(flow) or isinstance(flow, (Program, Method)):
        raise TypeError(
            f"`flow` is a {type(flow).__name__}, expected a name or a function; pass a ready "
            "program as `program`"
        )
    label = getattr(flow, "__name__", type(flow).__name__)
    say(f"exporting ({label})")
    exported = exporter()
    result = _ready(label, flow(exported), exported, method, data_path)
    result.source = exported
    return result
