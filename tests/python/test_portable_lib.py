"""executorch_c.portable_lib compared with the official module: equal calls give equal results."""

from typing import Any

import ml_dtypes  # noqa: F401  (bfloat16 outputs)
import pytest
import torch

official = pytest.importorskip("executorch.extension.pybindings.portable_lib")

import executorch_c
from executorch_c import portable_lib as ours
from executorch_c.bundled import BundledProgram


class Mixed(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any, n: int) -> Any:
        return x * n, (x > 0), x.to(torch.bfloat16)


class Counter(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        self.count.add_(x)
        return self.count.clone()


@pytest.fixture(scope="module")
def pte() -> bytes:
    from executorch.exir import ExecutorchBackendConfig, to_edge

    programs = {
        "forward": torch.export.export(Mixed(), (torch.ones(2, 3), 3)),
        "count": torch.export.export(Counter(), (torch.ones(2),)),
    }
    config = ExecutorchBackendConfig(emit_mutable_buffer_names=True)
    data: bytes = to_edge(programs).to_executorch(config).buffer
    return data


def test_every_name_is_there() -> None:
    names = {name for name in dir(official) if not name.startswith("__")}
    names -= {"glob", "importlib", "logger", "logging", "os", "spec", "sys"}  # not public
    assert not names - set(dir(ours))


@pytest.mark.parametrize("lib", [official, ours], ids=["official", "ours"])
def test_the_same_calls(lib: Any, pte: bytes, tmp_path: Any) -> None:
    x = torch.randn(2, 3)
    (tmp_path / "m.pte").write_bytes(pte)
    buffer = lib._load_for_executorch_from_buffer(
        pte, program_verification=lib.Verification.Minimal
    )
    for module in (buffer, lib._load_for_executorch(str(tmp_path / "m.pte"))):
        assert sorted(module.method_names()) == ["count", "forward"]
        assert not module.has_etdump()
        for outputs in (
            module.forward([x, 3]),
            module.run_method("forward", (x, 3)),
            module((x, 3)),
        ):
            for actual, expected in zip(outputs, Mixed()(x, 3), strict=True):
                torch.testing.assert_close(actual, expected)
        for step in (1.0, 2.0):  # state persists
            [count] = module.run_method("count", (torch.ones(2),))
            torch.testing.assert_close(count, torch.full((2,), step))
        meta = module.method_meta("forward")
        assert (meta.name(), meta.num_inputs(), meta.num_outputs()) == ("forward", 2, 3)
        assert meta.input_tensor_meta(0).sizes() == (2, 3)


@pytest.mark.parametrize("lib", [official, ours], ids=["official", "ours"])
def test_programs_and_methods(lib: Any, pte: bytes) -> None:
    program = lib._load_program_from_buffer(pte)
    names = [program.get_method_name(i) for i in range(program.num_methods())]
    assert sorted(names) == ["count", "forward"]
    method = program.load_method("count")
    method.set_inputs((torch.ones(2),))
    method.execute()
    torch.testing.assert_close(method.get_outputs()[0], torch.ones(2))
    torch.testing.assert_close(method.get_attribute("count"), torch.ones(2))
    method.get_attribute("count").zero_()
    torch.testing.assert_close(method.call((torch.ones(2),))[0], torch.ones(2))
    assert method.method_meta().name() == "count"


def test_inputs_with_a_history(pte: bytes) -> None:
    x = torch.randn(3, 2, requires_grad=True)
    module = ours._load_for_executorch_from_buffer(pte)
    [product, *_] = module.forward([x.t(), 3])
    torch.testing.assert_close(product, x.detach().t() * 3)


def test_bundled_programs(pte: bytes) -> None:
    x = torch.randn(2, 3)
    good, bad = [x * 3, x > 0, x.to(torch.bfloat16)], [x * 4, x > 0, x.to(torch.bfloat16)]
    data = BundledProgram(pte, {"forward": [([x, 3], good), ([x, 3], bad)]}).to_bytes()
    bundled = ours._load_bundled_program_from_buffer(data)
    outputs = bundled.verify_result_with_bundled_expected_output("forward", 0)
    torch.testing.assert_close(outputs, good)
    with pytest.raises(RuntimeError, match="outputs differ"):
        bundled.verify_result_with_bundled_expected_output("forward", 1)
    module = ours._load_for_executorch_from_bundled_program(bundled)
    torch.testing.assert_close(module.forward([x, 3]), good)


def test_what_there_is() -> None:
    assert "aten::add.out" in ours._get_operator_names()
    assert set(official._get_operator_names()) <= set(ours._get_operator_names()) | LLM
    assert ours._is_available("BackendWithCompilerDemo")
    assert "BackendWithCompilerDemo" in ours._get_registered_backend_names()
    threads = ours._threadpool_get_thread_count()
    ours._unsafe_reset_threadpool(1)
    assert ours._threadpool_get_thread_count() == executorch_c.Runtime.get().num_threads == 1
    ours._unsafe_reset_threadpool(threads)


LLM = {name for name in official._get_operator_names() if name.startswith(("llama::", "preproc"))}
"""Operators of the reference's LLM library, which this runtime lacks."""
