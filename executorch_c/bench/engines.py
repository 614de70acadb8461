"""Engines that `bench` measures: a function that loads a file and returns a call, and a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch_c import _extras
from executorch_c._render.text import unknown

if TYPE_CHECKING:
    import numpy as np

Call: TypeAlias = "Callable[[], Sequence[Any]]"
"""A call with the inputs that the engine was loaded for."""


@dataclass(frozen=True)
class Task:
    """The input of an engine: a file, or for eager the name of a model's function."""

    path: str
    inputs: tuple[Any, ...]
    """Arrays, and numbers of programs."""
    threads: int
    method: str = "forward"
    data: tuple[str, ...] = ()
    """Files of weights (.ptd)."""

    @property
    def arrays(self) -> list[np.ndarray]:
        """The inputs of other runtimes: arrays only."""
        import numpy as np

        return [value for value in self.inputs if isinstance(value, np.ndarray)]


def _here(task: Task) -> Call:
    from executorch_c import Runtime

    program = Runtime.get().load_program(task.path, data_path=[*task.data] or None)
    method = program.load_method(task.method, num_threads=task.threads)
    return lambda: method.execute(task.inputs)


def _official(task: Task) -> Call:
    import torch
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    torch.set_num_threads(1)  # its pool waits while the runtime's own works
    portable_lib._unsafe_reset_threadpool(task.threads)
    options = {"data_path": task.data[0]} if task.data else {}
    method = Runtime.get().load_program(task.path, **options).load_method(task.method)
    values = _tensors(task)
    return lambda: method.execute(values)


def _tensors(task: Task) -> list[Any]:
    import numpy as np
    import torch

    return [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in task.inputs]


def _eager(task: Task) -> Call:
    import torch

    from executorch_c.check.named import model_and_inputs

    torch.set_num_threads(task.threads)
    torch.set_grad_enabled(False)
    model, _, _ = model_and_inputs(task.path)
    values = _tensors(task)

    def call() -> Sequence[Any]:
        outputs = model(*values)
        return outputs if isinstance(outputs, (tuple, list)) else (outputs,)

    return call


def _onnxruntime(task: Task) -> Call:
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
    session = InferenceSession(task.path, options, providers=["CPUExecutionProvider"])
    feeds = dict(zip([x.name for x in session.get_inputs()], task.arrays, strict=True))
    return lambda: session.run(None, feeds)


def _openvino(task: Task) -> Call:
    import openvino

    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": task.threads,
    }
    model = openvino.compile_model(task.path, "CPU", options)
    request = model.create_infer_request()
    feeds = dict(enumerate(task.arrays))
    return lambda: [*request.infer(feeds).values()]


def _litert(task: Task) -> Call:
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(task.path, num_threads=task.threads)
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()
    # litert_torch gives inputs these names, and integers 32 bits.
    feeds = {
        f"args_{i}": x.astype(np.int32) if x.dtype == np.int64 else x
        for i, x in enumerate(task.arrays)
    }

    def call() -> Sequence[Any]:
        outputs = runner(**feeds)
        return [outputs[name] for name in sorted(outputs)]

    return call


@dataclass(frozen=True)
class Engine:
    """A runtime."""

    name: str
    load: Callable[[Task], Call]
    modules: tuple[str, ...] = ()
    """Modules to import before loading."""
    file: str = ""
    """Kind of file that the user names: "onnx"; empty: the program, or the model of eager."""
    distribution: str = ""
    """Distribution to install."""


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("here", _here, ("executorch_c._core",)),
        Engine(
            "official",
            _official,
            # The second registers the operators of int8.
            ("executorch.runtime", "executorch.kernels.quantized", "torch"),
            distribution="executorch_c[check]",
        ),
        Engine("eager", _eager, ("torch",), distribution="executorch_c[check]"),
        Engine("onnxruntime", _onnxruntime, ("onnxruntime",), "onnx", "onnxruntime"),
        Engine("openvino", _openvino, ("openvino",), "onnx", "openvino"),
        Engine("litert", _litert, ("ai_edge_litert",), "tflite", "ai-edge-litert"),
    )
}
RIVALS = tuple(name for name in ENGINES if name != "here")


def rival_of(text: str) -> tuple[Engine, str]:
    """Return the engine and the file of "onnxruntime:m.onnx", or of "official".

    Raises ValueError for an unknown engine, or a file that is missing or not taken; ImportError for
    an engine that is not installed.
    """
    name, colon, path = text.partition(":")
    if name not in RIVALS:
        raise ValueError(f"rival {unknown(name, RIVALS)}")
    engine = ENGINES[name]
    if engine.file and not path:
        raise ValueError(f"{name} needs a file: {name}:model.{engine.file}")
    if colon and not engine.file:
        raise ValueError(f"{text}: {name} takes no file, expected {name}")
    for package in [name.partition(".")[0] for name in engine.modules]:
        if not _extras.is_installed(package):
            install = f"pip install '{engine.distribution}'"
            raise ImportError(f"{name} needs the package {package}: {install}")
    return engine, path
