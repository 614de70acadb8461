"""The runtimes that `compare` measures, one row each, and the process that measures one of them.

Add one: a function that writes its file, a function that loads it, and a row in RIVALS. Packages
that are not installed here may be those of another Python, `EXECUTORCH_C_BENCH_PYTHON`: it then
writes and measures the files of the rivals that need them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.common import CACHE, PYTHON, has_packages

Arrays = Sequence[np.ndarray[Any, Any]]
Call = Callable[[], Arrays]


@dataclass(frozen=True)
class Job:
    """A network under a scheme, at a size, with a number of threads."""

    network: str
    scheme: str
    size: int
    batch: int
    threads: int

    @property
    def title(self) -> str:
        batch = f"x{self.batch}" if self.batch > 1 else ""
        return f"{self.network}-{self.size}{batch}-{self.scheme}"

    def build(self) -> tuple[Any, tuple[Any, ...]]:
        from benchmarks.networks import NETWORKS

        return NETWORKS[self.network].build(self.size, self.batch)

    def file(self, what: str, suffix: str, packages: Sequence[str] = ("torch",)) -> Path:
        """Return the cached file of a network, whose name depends on its sources and packages."""
        from benchmarks.exports import key
        from benchmarks.networks import NETWORKS

        make = NETWORKS[self.network].make
        here = Path(__file__).parent
        sources = [here / "networks" / f"{make.__module__.rpartition('.')[2]}.py"]
        if what != "io":
            sources.append(here / "exports.py")
        (CACHE / "compare").mkdir(parents=True, exist_ok=True)
        name = f"{self.title}-{what}-{key(sources, ('transformers', *packages))}{suffix}"
        return CACHE / "compare" / name

    def io(self) -> Path:
        """Return the file of the inputs and of the outputs of eager PyTorch in float32."""
        import torch

        from benchmarks.exports import write_arrays

        path = self.file("io", ".npz")
        if not path.exists():
            module, inputs = self.build()
            with torch.no_grad():
                results = module(*inputs)
            outputs = results if isinstance(results, tuple) else (results,)
            arrays = {f"input{i:03}": x.numpy() for i, x in enumerate(inputs)}
            arrays |= {f"output{i:03}": x.numpy() for i, x in enumerate(outputs)}
            write_arrays(path, arrays)
        return path


# ---- files -----------------------------------------------------------------------------------


def pte(delegated: bool) -> Callable[[Job], Path]:
    def prepare(job: Job) -> Path:
        from benchmarks.exports import PACKAGES, program, write

        path = job.file("delegated" if delegated else "portable", ".pte", PACKAGES)
        if not path.exists():
            write(path, program(*job.build(), job.scheme, delegated))
        return path

    return prepare


def nothing(job: Job) -> Path:
    return job.io()


def onnx(job: Job) -> Path:
    """Export by torch.onnx; in int8, quantise with ONNX Runtime's own tool."""
    import torch

    packages = ("torch", "onnx", "onnxscript", "onnxruntime")
    path = job.file("onnx", ".onnx", packages)
    if path.exists():
        return path
    module, inputs = job.build()
    whole = path.with_suffix(".float.onnx") if job.scheme == "int8" else path
    part = whole.with_suffix(".part")
    with torch.no_grad():
        torch.onnx.export(
            module, inputs, part, dynamo=True, external_data=False, verbose=False, optimize=True
        )
    part.replace(whole)
    if job.scheme == "int8":
        quantize_onnx(whole, path, [x.numpy() for x in inputs])
        whole.unlink()
    return path


def quantize_onnx(source: Path, target: Path, inputs: Arrays) -> None:
    from onnxruntime import InferenceSession
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    names = [x.name for x in InferenceSession(source).get_inputs()]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.feeds = iter([dict(zip(names, inputs, strict=True))])

        def get_next(self) -> Any:
            return next(self.feeds, None)

    ready, part = source.with_suffix(".ready.onnx"), target.with_suffix(".part.onnx")
    quant_pre_process(source, ready, skip_symbolic_shape=True)
    quantize_static(
        ready,
        part,
        Reader(),
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    ready.unlink()
    part.replace(target)


def tflite(job: Job) -> Path:
    """Convert by litert_torch; in int8, quantise with LiteRT's own tool."""
    import litert_torch

    path = job.file("litert", ".tflite", ("torch", "litert-torch", "ai-edge-quantizer"))
    if path.exists():
        return path
    module, inputs = job.build()
    part = path.with_suffix(".part.tflite")
    if job.scheme == "int8":
        quantize_tflite(tflite(replace(job, scheme="fp32")), part, [x.numpy() for x in inputs])
    else:
        litert_torch.convert(module, inputs).export(str(part))
    part.replace(path)
    return path


def quantize_tflite(source: Path, target: Path, inputs: Arrays) -> None:
    """Quantise all but inputs and outputs, which are of float32 for all runtimes."""
    from ai_edge_quantizer import algorithm_manager, qtyping, quantizer, recipe

    tool = quantizer.Quantizer(str(source))
    tool.load_quantization_recipe(recipe.static_wi8_ai8())
    for name in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
        tool.update_quantization_recipe(
            ".*", name, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
        )
    calibration = tool.calibrate({"serving_default": [signature(inputs)]}, num_threads=1)
    model = tool.quantize(calibration, enable_progress_bar=False, enable_progress_report=False)
    model.export_model(str(target), overwrite=True)


def signature(inputs: Arrays) -> dict[str, Any]:
    """Return inputs by the names, and integers of the 32 bits, that litert_torch gives them."""
    return {
        f"args_{i}": x.astype(np.int32) if x.dtype == np.int64 else x for i, x in enumerate(inputs)
    }


# ---- calls -----------------------------------------------------------------------------------


OPTION = "delegate_at_load"


def can_delegate() -> bool:
    from executorch_c import Program

    return OPTION in (Program.load_method.__doc__ or "")


def ours(delegation: bool | None = None) -> Callable[[Path, Job, Arrays], Call]:
    """Return a function that loads with `delegate_at_load=delegation`, or with its default."""

    def load(path: Path, job: Job, inputs: Arrays) -> Call:
        from executorch_c import Runtime

        assert "XnnpackBackend" in Runtime.get().backend_registry.registered_backend_names
        program = Runtime.get().load_program(path)
        options: dict[str, Any] = (
            {OPTION: delegation} if delegation is not None and can_delegate() else {}
        )
        method = program.load_method("forward", num_threads=job.threads, **options)
        return lambda: method.execute(inputs)

    return load


def packaged(name: str) -> Callable[[Path, Job, Arrays], Call]:
    """Return a function that loads as `executorch-c bench` does."""

    def load(path: Path, job: Job, inputs: Arrays) -> Call:
        from executorch_c.bench.engines import ENGINES, Task

        for module in ENGINES[name].modules:
            importlib.import_module(module)
        return ENGINES[name].load(Task(str(path), tuple(inputs), job.threads))

    return load


def eager(path: Path, job: Job, inputs: Arrays, compiled: bool = False) -> Call:
    import torch

    torch.set_num_threads(job.threads)
    torch.set_grad_enabled(False)
    module, _ = job.build()
    run = torch.compile(module) if compiled else module
    tensors = [torch.from_numpy(x) for x in inputs]

    def call() -> Arrays:
        outputs = run(*tensors)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return call


def compiled(path: Path, job: Job, inputs: Arrays) -> Call:
    import os

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE / "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    return eager(path, job, inputs, compiled=True)


def torch_free(path: Path, job: Job, inputs: Arrays) -> Call:
    """Load in executorch-numpy-runtime: the official 1.3, whose pool has a thread for each CPU."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.threads])
    from executorch_numpy_runtime import Runtime

    method = Runtime.get().load_program(str(path)).load_method("forward")
    arrays = list(inputs)
    return lambda: method(arrays)


# ---- the table -------------------------------------------------------------------------------


def python_with(packages: tuple[str, ...]) -> str:
    """Return the Python that has all packages, this one first, or an empty string."""
    for python in (sys.executable, os.environ.get(PYTHON, "")):
        if python and has_packages(python, packages):
            return python
    return ""


@dataclass(frozen=True)
class Rival:
    """A runtime: `prepare` writes its file, in a Python that has the converters, `load` returns a
    call in the process that measures, whose Python has the packages."""

    name: str
    title: str
    prepare: Callable[[Job], Path]
    load: Callable[[Path, Job, Arrays], Call]
    packages: tuple[str, ...] = ()
    converters: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("fp32", "int8")
    delegates: bool = False
    is_ours: bool = False

    @property
    def python(self) -> str:
        """Return the Python that measures the rival, or an empty string."""
        return python_with(self.packages)

    def missing(self) -> str:
        """Return why the rival cannot be measured here, or an empty string."""
        for packages in (self.packages, self.converters):
            if not python_with(packages):
                return f"needs {', '.join(packages)}: pip install '.[bench]', or {PYTHON}"
        return f"needs the option {OPTION}=" if self.delegates and not can_delegate() else ""

    def file(self, job: Job) -> Path:
        """Write the rival's file, in the Python that has its converters, and return its path."""
        python = python_with(self.converters)
        if python == sys.executable:
            return self.prepare(job)
        command = [python, "-m", "benchmarks.rivals", "prepare", self.name]
        process = subprocess.run(
            [*command, json.dumps(asdict(job))],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if process.returncode:
            raise RuntimeError((process.stderr.strip().splitlines() or ["the process ended"])[-1])
        return Path(process.stdout.strip().splitlines()[-1])


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("ours", "executorch_c, kernels", pte(False), ours(False), is_ours=True),
        Rival(
            "ours_delegated_at_load",
            "executorch_c, delegated at load",
            pte(False),
            ours(True),
            delegates=True,
            is_ours=True,
        ),
        Rival("ours_delegated", "executorch_c, delegated", pte(True), ours(), is_ours=True),
        Rival("official", "official", pte(False), packaged("official")),
        Rival("official_delegated", "official, delegated", pte(True), packaged("official")),
        Rival(
            "torch_free",
            "executorch-numpy-runtime",
            pte(False),
            torch_free,
            ("executorch_numpy_runtime",),
        ),
        Rival(
            "torch_free_delegated",
            "executorch-numpy-runtime, delegated",
            pte(True),
            torch_free,
            ("executorch_numpy_runtime",),
        ),
        Rival("eager", "torch eager", nothing, eager, schemes=("fp32",)),
        Rival("compiled", "torch.compile", nothing, compiled, schemes=("fp32",)),
        Rival(
            "onnxruntime",
            "ONNX Runtime",
            onnx,
            packaged("onnxruntime"),
            ("onnxruntime",),
            ("onnx", "onnxscript", "onnxruntime"),
        ),
        Rival(
            "openvino",
            "OpenVINO",
            onnx,
            packaged("openvino"),
            ("openvino",),
            ("onnx", "onnxscript", "onnxruntime"),
        ),
        Rival(
            "litert",
            "LiteRT",
            tflite,
            packaged("litert"),
            ("ai_edge_litert",),
            ("litert_torch", "ai_edge_quantizer"),
        ),
    )
}


# ---- a process -------------------------------------------------------------------------------


def error(outputs: Arrays, expected: Arrays) -> float:
    """Return the largest of the outputs' relative errors (root mean squares)."""
    errors = []
    for a, b in zip(outputs, expected, strict=True):
        if a.shape != b.shape:
            return math.inf
        right = np.asarray(b, np.float64)
        scale = max(1e-12, float(np.sqrt(np.mean(np.square(right)))))
        errors.append(float(np.sqrt(np.mean(np.square(a - right)))) / scale)
    return float(np.max(errors))  # NaN if any is


def turn(call: Call, budget: float) -> dict[str, float]:
    """Call for `budget` seconds, and at least twice unless a call takes longer."""
    times: list[float] = []
    until = time.perf_counter() + budget
    while not times or time.perf_counter() < until or (len(times) < 2 and times[0] < budget):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return {"best": min(times), "median": statistics.median(times), "calls": len(times)}


def main() -> None:
    """Load the rival's file, report, and take a turn for each budget that a line of stdin has.

    With the arguments `prepare`, a rival and a job, write the rival's file, and print its path.
    """
    if sys.argv[1] == "prepare":
        with contextlib.redirect_stdout(io.StringIO()):  # converters have much to say
            path = RIVALS[sys.argv[2]].prepare(Job(**json.loads(sys.argv[3])))
        print(path)
        return
    rival, path, job = RIVALS[sys.argv[1]], Path(sys.argv[2]), Job(**json.loads(sys.argv[3]))
    with np.load(sys.argv[4]) as file:
        inputs = [file[name] for name in file.files if name.startswith("input")]
        expected = [file[name] for name in file.files if name.startswith("output")]
    start = time.perf_counter()
    call = rival.load(path, job, inputs)
    loaded = time.perf_counter()
    outputs = call()
    first = time.perf_counter() - loaded
    report = {"load": loaded - start, "first": first}
    arrays = [np.asarray(x) for x in outputs]
    print(json.dumps(report | {"error": error(arrays, expected)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(call, float(line))), flush=True)


def command(rival: Rival, path: Path, job: Job) -> list[str]:
    """Return the command that measures a rival."""
    arguments = [rival.name, str(path), json.dumps(asdict(job)), str(job.io())]
    return [rival.python, "-m", "benchmarks.rivals", *arguments]


if __name__ == "__main__":
    main()
