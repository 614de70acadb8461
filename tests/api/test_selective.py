"""`executorch-c selective`: a small library that runs its programs, and refuses others."""

import subprocess
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import _selective, cli
from tests import exports, process
from tests.api import c_library, small_models
from tests.kernels import rows as kernel_rows
from tests.models import zoo
from tests.plans import Plan, build, schema

exir = pytest.importorskip("executorch.exir")

pytestmark = pytest.mark.heavy

PARTS = 4
"""Days on which all operators run in a small library."""
DTYPES = (
    *("int8 int32", "float16", "bfloat16", "uint8 uint16", "complex64", "float64 int16", ""),
    *("complex128", "uint32 uint64", "complex64 float16", "int8 uint8 float16 bfloat16"),
)
"""Dtypes that libraries keep beside those of masks, positions and scalars: one row each day."""
CORE, DIGITS = 50_000, 150_000
"""Limits in bytes: code of the core, and code and constants of a classifier's library."""


class Digits(torch.nn.Module):
    """A classifier of 8 x 8 pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.two = torch.nn.Conv2d(8, 16, 3, padding=1)
        self.out = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.one, self.two):
            x = torch.nn.functional.max_pool2d(torch.relu(layer(x)), 2, 2)
        return torch.log_softmax(self.out(x.flatten(1)), -1)


@pytest.fixture(scope="module")
def digits() -> Path:
    return c_library.program("digits", Digits(), torch.randn(1, 1, 8, 8))


@pytest.fixture(scope="module")
def small(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    source = str(c_library.ROOT)  # an installed package has none
    assert cli.main(["selective", str(digits), "-o", str(folder), "--source", source]) == 0
    return folder


def run(small: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return process.run(str(small / "ec-run"), *map(str, arguments), ok=False)


def test_the_library_computes_what_the_package_computes(
    small: Path, digits: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done = run(small, "-i", tmp_path / "x.npy", "-o", tmp_path, digits)
    assert done.returncode == 0, done.stderr
    method = executorch_c.load(digits).load_method("forward")
    np.testing.assert_allclose(np.load(tmp_path / "out0.npy"), method.execute([x])[0], atol=1e-5)


def test_it_is_small(small: Path) -> None:
    rows = {name: row for name, *row in _selective.totals(_selective.sizes(small))}
    assert 10_000 < rows["core"][0] <= CORE, rows
    assert sum(rows["all"][:2]) <= DIGITS, rows
    library = small / "libexecutorch_c.so"
    text = process.run("size", library).stdout
    assert int(text.split()[6]) <= DIGITS, text


def test_other_programs_are_refused(small: Path) -> None:
    done = run(small, c_library.program("cos", exports.Fn(torch.cos), torch.randn(2)))
    assert done.returncode == 1 and "aten::cos.out" in done.stderr, done.stderr
    x = torch.randn(2, dtype=torch.float64)
    done = run(small, c_library.program("wide", torch.nn.ReLU(), x))
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "dtype" in done.stderr or "float64" in done.stderr, done.stderr


def test_an_output_that_a_jump_skips_is_an_error(small: Path, tmp_path: Path) -> None:
    """Its memory has the value of another tensor."""
    plan = Plan()
    choice, x = plan.input((), "bool"), plan.input((64,))
    shared = plan.tensor((64,))
    plan.call("aten::relu.out", x, shared)
    y = plan.output((64,), at=plan.memory(shared)[0])
    plan.append(schema.JumpFalseCall(choice, 3))
    plan.call("aten::relu.out", x, y)
    pte, choice_file, x_file = (tmp_path / name for name in ("x.pte", "choice.npy", "x.npy"))
    pte.write_bytes(build(plan))
    np.save(x_file, np.ones(64, np.float32))
    for chosen, says in ((True, ""), (False, "never computed output 0")):
        np.save(choice_file, np.array(chosen))
        done = run(small, "-i", choice_file, "-i", x_file, "-o", tmp_path, pte)
        assert done.returncode == (0 if chosen else 1) and says in done.stderr, done.stderr


def test_needs_are_those_of_all_programs(digits: Path) -> None:
    other = c_library.program("cos", exports.Fn(torch.cos), torch.randn(2))
    needs = _selective.needs_of([executorch_c.load(digits), executorch_c.load(other)])
    assert {"aten::cos.out", "aten::convolution.out"} <= needs.operators
    assert needs.dtypes == {"bool", "int64", "float32"} and not needs.backends


@pytest.mark.parametrize(
    ("dtypes", "more"),
    [
        ({"uint8", "int8"}, {"int16"}),
        ({"uint8"}, set()),
        ({"complex64", "float64"}, {"complex128"}),
        ({"float16", "bfloat16"}, set()),
    ],
)
def test_dtypes_are_closed_under_promotion(dtypes: set[str], more: set[str]) -> None:
    closed = _selective.promoted(dtypes)
    assert closed == {"bool", "int64", "float32"} | dtypes | more
    for a in closed:
        for b in closed:
            both = torch.promote_types(getattr(torch, a), getattr(torch, b))
            assert str(both).removeprefix("torch.") in closed


def test_faults_are_one_sentence(
    tmp_path: Path, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["selective", str(digits), "-o", str(tmp_path / "s")]
    assert cli.main([*command, "--source", str(tmp_path)]) == 1
    assert "needs the source tree" in capsys.readouterr().err
    with pytest.raises(LookupError, match="no kernels for my::op.out"):
        _selective.rows_of(c_library.ROOT / "csrc", {"my::op.out", "aten::add.out"})


def test_a_loop_that_the_library_lacks_is_an_error(tmp_path: Path) -> None:
    """The operators compute in int64, which no table of the library has."""
    names = ("aten::eq.Scalar_out", "aten::remainder.Scalar_out")
    c_library.build_small(tmp_path, {*names}, {"int32", "bool"}, "-O0")
    for name, out in zip(names, ("bool", "int32"), strict=True):
        plan = Plan()
        x, y = plan.input((4,), "int32"), plan.output((4,), out)
        plan.call(name, x, 3, y)
        (tmp_path / "x.pte").write_bytes(build(plan))
        done = run(tmp_path, tmp_path / "x.pte")
        assert done.returncode == 1, done.stderr
        assert f"{name}: it computes in a dtype that this library was built" in done.stderr


def test_operators_compute_as_eager_with_the_dtypes_that_a_library_keeps(tmp_path: Path) -> None:
    """All operators are in the library, with sanitizers; each day other dtypes are kept, and others
    of the operators run."""
    day = date.today().toordinal()
    names = {*kernel_rows.tables()}
    kept = {*_selective.promoted(DTYPES[day % len(DTYPES)].split())}
    c_library.build_small(tmp_path, names, kept, c_library.SANITIZED)
    chosen = sorted(names)[day % PARTS :: PARTS]
    command = ("-m", "tests.api.small_rows", tmp_path, ",".join(kept), *chosen)
    done = process.python(*command, cwd=c_library.ROOT, timeout=900)
    assert not done.stdout, done.stdout


@pytest.mark.sweep(29)
@pytest.mark.parametrize("flow", zoo.FLOWS)
@pytest.mark.parametrize("name", zoo.names())
def test_models_run_with_sanitizers(tmp_path: Path, name: str, flow: str) -> None:
    """In a library with their operators and dtypes; `small_models` runs all of them."""
    assert not [*small_models.faults(tmp_path, [(name, flow)])]


@pytest.mark.parametrize("device", schema.DeviceType)
def test_a_tensor_of_another_device_is_refused(
    small: Path, tmp_path: Path, device: schema.DeviceType
) -> None:
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    plan.call("aten::relu.out", x, y)
    plan.plan.values[y].val.extra_tensor_info = schema.ExtraTensorInfo(device_type=device)
    pte = tmp_path / "x.pte"
    pte.write_bytes(build(plan))
    done = run(small, pte)
    is_cpu = device == schema.DeviceType.CPU
    assert done.returncode == (0 if is_cpu else 1), done.stderr
    assert is_cpu or f"device {int(device)} (CUDA), only the CPU (0) is supported" in done.stderr
    if is_cpu:
        executorch_c.load(pte).load_method("forward")
    else:
        with pytest.raises(executorch_c.NotSupportedError, match="only the CPU .0. is supported"):
            executorch_c.load(pte).load_method("forward")
