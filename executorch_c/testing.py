"""Comparisons of programs with expected outputs and PyTorch models, for tests and notebooks.

    from executorch_c.testing import assert_matches, compare

    def test_model():
        expected = model(x)  # PyTorch eager, or saved arrays
        assert_matches([x], expected, program="model.pte")

Needs NumPy only; torch tensors are accepted, too. With torch and executorch installed,
`check_model` exports a model and checks the program on several inputs:

    check_model(model, (x,), flow="xnnpack").raise_if_wrong()

A verdict is "match", "differ" or "inconclusive"; `executorch_c/compare/tolerance.py` has the rules.

long: the docstring of check_model is its reference
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from executorch_c._delegation import DelegateAtLoad
from executorch_c._input_sets import InputCase, InputSet, Source, input_set
from executorch_c._order import model_first
from executorch_c._programs import ProgramSource, method_of
from executorch_c._validate import validate
from executorch_c.compare.arrays import MismatchError, compare
from executorch_c.compare.cases import CaseComparisons, ComparedCase
from executorch_c.compare.comparison import Comparison, OutputComparison
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.compare.policies import Function, policies_of
from executorch_c.compare.tolerance import PerOutput

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from executorch_c._types import Data, FilePath
    from executorch_c.check.power import Power, TestedWeight
    from executorch_c.check.result import CheckedCase, CheckError, CheckResult
    from executorch_c.suite.result import CheckRow, SuiteError, SuiteInterrupt, SuiteResult

__all__ = [
    "CaseComparisons",
    "CheckError",
    "CheckResult",
    "CheckedCase",
    "ComparedCase",
    "Comparison",
    "ErrorMetrics",
    "InputCase",
    "InputSet",
    "MismatchError",
    "OutputComparison",
    "CheckRow",
    "Power",
    "SuiteError",
    "SuiteInterrupt",
    "SuiteResult",
    "TestedWeight",
    "assert_matches",
    "calls",
    "check_all",
    "check_model",
    "compare",
    "input_set",
    "validate",
]


@model_first
def assert_matches(
    inputs: Sequence[object],
    expected: object,
    *,
    program: ProgramSource,
    method: str = "forward",
    rtol: PerOutput = None,
    atol: PerOutput = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    require: str | Sequence[str] | None = None,
    metrics: Mapping[str, Function] | None = None,
) -> Comparison:
    """Run a program and assert that its outputs match the expected ones.

    Args:
        inputs: Inputs of one call: arrays, torch tensors, numbers, strings, None.
        expected: Expected outputs, as for `compare`.
        program: A path, bytes or file of a .pte, .ptn or .bpte, a Program, a Method (with its
            current state, and operators that were delegated when it was loaded), a BundledProgram,
            or a manager of the official flow.
        method: Name of the method, unless `program` is a Method.
        rtol, atol, equal_nan, check_dtype: As for `compare`.
        kernels: As for `Program.load_method`.
        delegate_at_load: As for `check_model`.
        require, metrics: As for `compare`.

    Returns the `Comparison` with the metrics of all outputs; its notes are warnings. Raises
    MismatchError (an AssertionError with the table of metrics and the mismatches) unless the
    verdict is "match", and exceptions of loading and running.
    """
    outputs = method_of(program, method, kernels, delegate_at_load).execute(inputs)
    comparison = compare(
        outputs,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=check_dtype,
        require=require,
        metrics=metrics,
    )
    if not comparison:
        __tracebackhide__ = True  # pytest shows the line of the test
        raise MismatchError(comparison, outputs, expected)
    comparison.warn(stacklevel=4)
    return comparison


@model_first
def check_model(
    model: object,
    inputs: object = None,
    *,
    flow: str | Callable[[Any], object] | None = "portable",
    program: ProgramSource | None = None,
    dynamic_shapes: object = None,
    n_random: int = 3,
    real_inputs: Source = (),
    search: bool | float = False,
    rtol: PerOutput = None,
    atol: PerOutput = None,
    min_sqnr_db: float | None = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    method: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    data_path: Data | Sequence[Data] | None = None,
    engines: str | Sequence[str] | None = None,
    official_seconds: float = 20.0,
    require: str | Sequence[str] | None = None,
    metrics: Mapping[str, Function] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> CheckResult:
    """Return the comparison of a program with its PyTorch model. Needs torch and executorch.

    Both run on the example, on similar random inputs, on dynamic shapes at their bounds, and on
    real inputs. Random inputs may miss faults such as swapped channels: pass
    real inputs, too.

    Args:
        model: A torch.nn.Module in eval mode, a torch.export.ExportedProgram, or a function.
        inputs: Example inputs of the export: a tuple of positional arguments, a dict of keyword
            arguments, or one tensor. Default: those of an ExportedProgram.
        flow: Name of the flow that exports the model: "portable" (no delegate), "xnnpack",
            "xnnpack-int8" (PT2E: static, weights by channel, calibrated on the example and the
            real inputs), "xnnpack-dynamic" (activations quantised at run time), "vulkan" or
            "vulkan-int8" (the same for Vulkan, interpreted on the CPU), "coreml" (Core ML in
            float32, interpreted on the CPU), "openvino" or "openvino-int8" (on its engine), "tosa"
            or "tosa-int8" (Arm's TOSA, interpreted on the CPU), "vgf" or "vgf-int8" (the same in
            Arm's VGF, by its converter), "ethos-u55" or "ethos-u85" (int8, the TOSA graph that Vela
            compiles for the NPU); all of these with "-a8w4" (weights of 4 bits) or "-a16w8"
            (activations of 16) as "tosa-a8w4", "ethos-u55-a16w8";
            "cortex-m" (int8, operators of CMSIS-NN), "cadence" (int8, operators of Cadence's DSPs;
            static shapes), "native" (portable graphs of ExecuTorch 1.5, interpreted on the CPU),
            "native-package" (the same as a .ptn), "mlx" (MLX, Apple's GPUs, interpreted on the
            CPU), "coreai" (Core AI, on its engine), "qnn", "qnn-a16w8", "qnn-a16w4", "samsung",
            "mtk", "neutron", "cuda" (the graph before the vendor's compiler, without delegate);
            or a function from ExportedProgram to a program.
        program: An existing program instead of a flow: a path, bytes or an open file of a .pte,
            .bpte or .ptn, a Program, a Method, an EdgeProgramManager, an ExecutorchProgramManager,
            a BundledProgram. Test cases of a .bpte are run, too.
        dynamic_shapes: As for torch.export.export.
        n_random: Number of random calls.
        real_inputs: Calls, each like `inputs`, of NumPy arrays or tensors: a list, a generator, a
            DataLoader, or files, as for `input_set` ("inputs/", "inputs/*.npz", "loader.py:f").
            `calls(a, b, c)` is one case of several calls in a row. Objects are read beforehand; of
            files the headers, and then one file at a time.
        search: Look for inputs that reach what these cases do not, for 30 s, or for a number of
            seconds: see below.
        rtol, atol: An element matches if |actual - expected| <= atol + rtol * |expected|, for all
            outputs, or for some by index or name: {"logits": 1e-3}. Default: the rounding noise of
            the model, see below.
        min_sqnr_db: Minimum signal-to-quantisation-noise ratio, in dB, of a quantised program
            against the float model. Default: 10, with float or dynamic activations and weights of
            8 bits 15. Raises ValueError where it has no effect: for a program that is not
            quantised, a model that is, and with rtol or atol.
        equal_nan, check_dtype: As for `compare`.
        method: Name of the program's method. It is compared with the module's method of that name;
            with its forward, as a note says, if it has none.
        kernels: As for `Program.load_method`.
        delegate_at_load: Whether XNNPACK computes the operators that no delegate has, as it does
            by default when a program runs here. Default: the program runs as written. A Method is
            used as it was loaded; the result says if operators were delegated at load.
        data_path: The .ptd file or files of a .pte.
        engines: ("here", "official"), or ("here",): this runtime only. Default: both.
        official_seconds: Time limit of a case in the official runtime.
        require, metrics: As for `compare`, against the model: of a quantised program on the example
            and the real inputs. Shares of rows (top1, top5) are those of all cases together.
        seed: Seed of the random inputs, which are equal on all machines.
        progress: Show progress on stderr. Default: if it is a terminal.

    Tolerance: outputs within a rounding or two match. Otherwise the model runs four times with
    random rounding of each operator (Monte Carlo arithmetic). The error of an element is at most
    four standard deviations of that noise (its own plus its slice's), the RMS error at most three.
    Integers must be equal unless they depend on rounding. `executorch_c/compare/tolerance.py` has
    the rules.

    Random inputs: floats are normally distributed with the example's mean, deviation and sign, or
    uniform in [0, 1] if the example is in that range. Inputs with few distinct values (flags) are
    drawn from these values. What integers are used for is seen in a call of the model: indices are
    drawn over all that are valid, with those that the model compares them with (padding) more
    often; positions at which buffers are written are consecutive; uint8 is from 0 to 255, a time
    step from 0 to 999, another integer from a range around the example's. Masks (bools, integers
    of zeros and ones, floats named so, and those with infinities) get prefixes, holes and all ones,
    or suffixes; each row keeps an element. If eager raises for such numbers, they are drawn in the
    range of the example's. Inputs other than tensors are unchanged.

    Edge shapes: minimum, maximum, minimum plus one, and a prime, for all symbolic sizes together
    and for each separately. Sizes of one symbol change together. If eager raises for edge or random
    inputs, or the export does not allow a shape that does not match, the case is skipped, with a
    remark. A note names a shape that the model refuses and the program accepts.

    Search: calls with larger and smaller ranges, ties, spikes, equal numbers and other sizes, with
    numbers that the exported graph compares with, NaN and infinities where it has operators for
    them, and calls that gradients move toward units that no call has activated, indices and experts
    that none has chosen, and comparisons with one result. Integers that are no indices, masks or
    positions have larger and negative ranges, too, unless eager raises. Calls that reach something
    new in the exported graph, and some others, are compared; inputs for which only they make the
    outputs infinite or NaN are left out. It ends at the first difference.

    State: each case starts from the model's initial buffers on both sides. If a call changes them,
    a case "state" makes up to twelve consecutive calls. Positions advance from call to call, to the
    end of the buffer and past it, unless eager raises there; of a long buffer, some at its start,
    in its middle and at its end. Every call is compared. Buffers that the program has by name are
    compared after each call, as its last outputs; a note names those that neither are nor change
    an output of a later call.

    Quantised programs: whether a program is quantised is seen in its operators and delegates, and
    whether the model is in its graph and tensors; a note and the facts say what was recognised.
    A program with a float `model` is compared by SQNR: at least `min_sqnr_db` on the example and
    the real inputs; a smaller one on other inputs of a program with scales of calibration is
    inconclusive. Faults that are smaller than the quantisation error do not show. Pass the
    quantised module (PT2E's converted module, a module of torchao) or its ExportedProgram as the
    model, and the rule of quantised flows applies, without the SQNR.

    Engines: the cases run in the official runtime, too, in a process of its own, where it can run
    the program: one without a delegate, or with XNNPACK's. Its outputs are compared with eager's
    in the same way. A program that is wrong there has the verdict "differ", one that it refuses, or
    that crashes it, "error"; remarks say which operator does it, or why a case was not run.

    Quantised flows: the reference is the quantised eager graph (PT2E's converted module). If the
    outputs are not equal, every layer is audited once: each integer must be the nearest to the
    value that the graph computes from the program's own values, or the other neighbour of a tie.
    The error relative to the graph is at most twice the graph's error relative to the float model.
    The SQNR relative to the float model, on the example and real inputs, is at least
    `min_sqnr_db`.

    Power: `result.power` has the share of the model's weights of which an error of 1 % would have
    been found, and what was not tested: experts that no case chooses, rows that no case reads, an
    input that keeps its values. `executorch_c/docs/explanation/power.md` says how it is measured.

    Returns a `CheckResult` with the verdict "match", "differ", "error" (of the official runtime) or
    "inconclusive" (outputs are constant or empty in all cases, no input changes them, or all cases
    are skipped). `raise_if_wrong()` raises an AssertionError unless the verdict is "match";
    `to_html(path)` writes a page.

    Raises ValueError for a non-deterministic model, for invalid arguments and for inputs with the
    wrong structure. Raises the exceptions of eager (on the example and real inputs), of the
    exporter and of loading. An exception of the running program is a failed case.
    """
    from executorch_c._eager_caches import empty_caches
    from executorch_c.check import run
    from executorch_c.check.engines import engines_of

    options = run.CheckOptions(
        rtol,
        atol,
        min_sqnr_db,
        equal_nan,
        check_dtype,
        kernels,
        delegate_at_load,
        engines_of(engines),
        official_seconds,
        policies_of(require, metrics),
    )
    with empty_caches():
        return run.check_model(
            model,
            inputs,
            flow,
            program=program,
            dynamic_shapes=dynamic_shapes,
            n_random=n_random,
            real_inputs=real_inputs,
            search=search,
            method=method,
            data_path=data_path,
            seed=seed,
            progress=progress,
            options=options,
        )


def check_all(
    checks: FilePath | Mapping[str, Any],
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    only: str | Sequence[str] = (),
    shard: str | None = None,
    seconds: float | None = None,
    baseline: FilePath | SuiteResult | None = None,
    allowances: Mapping[str, float] | None = None,
    pages: FilePath | None = None,
    done: Callable[[CheckRow], object] | None = None,
    progress: bool | None = None,
) -> SuiteResult:
    """Return the results of `check_model` for many models by many flows. Needs torch and
    executorch.

        check_all("checks.toml", jobs=2).raise_if_wrong()
        check_all({"models": {"net": {"model": "net.py:make", "flows": ["xnnpack"]}}})

    A process imports torch once, and forks for each check: a check that raises, crashes or exceeds
    its time limit is a row with the verdict "error". It runs in the folder of the file.

    Args:
        checks: Path of a TOML file, or its contents as a mapping: "models" by name, each with
            "model" (function that makes the model, "file.py:function" or "module:function", as for
            `executorch-c check`), "flows" or "program", and arguments of check_model that are plain
            data; "defaults" for all models; in a model "flow", arguments by flow. Paths are
            relative to the file, or to the working directory.
        jobs: Number of checks at a time; each has a part of the CPUs. Times of calls are longer
            beside others.
        executor: A concurrent.futures.Executor instead, such as dask's `Client.get_executor()` or
            mpi4py's `MPIPoolExecutor()`. It gets a function of this package and plain data. Its
            processes need this package, torch and the files, at the same paths.
        only: Names of models, flows or checks ("model:flow"), with * and ?.
        shard: "2/4" for the second of four parts.
        seconds: Time limit of each check. Default: that of the file, or 900.
        baseline: Earlier result, or the path of its JSON. The verdict is "differ" if something got
            worse: a verdict, the SQNR, the size, the share delegated, the time of a call.
        allowances: Changes that are not worse: "sqnr" in dB (default 1), "size" (0.01) and "ms"
            (0.5) relative, "delegated" as a share (0.001).
        pages: Folder for an HTML page of each check that does not match.
        done: Called with each row, as checks end.
        progress: Show progress on stderr. Default: if it is a terminal.

    Returns a `SuiteResult`; its verdict is the worst of all rows, "differ" before "error" before
    "inconclusive".

    Raises ValueError for a wrong file, with the line and the key, for an unknown name or a wrong
    part; OSError for files; at an interrupt SuiteInterrupt (a KeyboardInterrupt), whose `result`
    has the checks that were done.
    """
    from executorch_c.suite import run

    return run.check_all(
        checks,
        jobs=jobs,
        executor=executor,
        only=only,
        shard=shard,
        seconds=seconds,
        baseline=baseline,
        allowances=allowances,
        pages=pages,
        done=done,
        progress=progress,
    )


def calls(*inputs: object) -> object:
    """Return calls in a row as one item of real_inputs of `check_model`: both sides start from the
    initial state, and all calls are compared.

        real_inputs=[testing.calls((token, 0), (token, 1), (token, 2))]

    Args:
        inputs: Inputs of each call, each like `inputs` of check_model.

    Raises ValueError without a call.
    """
    from executorch_c.check.cases import Calls

    if not inputs:
        raise ValueError("calls() takes at least one call")
    return Calls(inputs)


def __getattr__(name: str) -> Any:
    """Import the classes of check_model at their first use."""
    if name in ("CheckError", "CheckResult", "CheckedCase"):
        from executorch_c.check import result

        return getattr(result, name)
    if name in ("CheckRow", "SuiteError", "SuiteInterrupt", "SuiteResult"):
        from executorch_c.suite import result as rows

        return getattr(rows, name)
    if name in ("Power", "TestedWeight"):
        from executorch_c.check import power

        return getattr(power, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
