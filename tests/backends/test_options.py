"""Backend options (per method, per process) and statistics."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec

import executorch_c
from tests.backends.demo_programs import COMPILER, EXECUTOR, SIN_INPUTS, THREE, composite
from tests.backends.demo_programs import edge_program, lowered, nested, seeded, sin
from tests.backends.fake_backend import WITHOUT_OPTIONS, Fake
from tests.exports import Fn
from tests.plans import edited

registry = executorch_c.Runtime.get().backend_registry

VALUES: dict[bytes, object] = {
    b"flag": False,
    b"count": 3,
    b"share": 0.5,
    b"mode": b"none",
    b"fixed": 1,
}
NOTHING: dict[str, object] = {
    "calls_delegated_at_load": 0,
    "delegated_at_load": {},
    "nested_delegated_at_load": {},
}
"""Items of backend_report() without load-time delegation."""
fake = Fake("FakeOptions", dict(VALUES))
old = Fake("FakeOld", {}, WITHOUT_OPTIONS)
for one in (fake, old):
    executorch_c.register_backend(one.capsule)


def load(pte: bytes, **options: Any) -> Any:
    return executorch_c.Runtime.get().load_program(pte).load_method("forward", **options)


@pytest.fixture(scope="module")
def sin_pte() -> bytes:
    return sin()


def of_backend(pte: bytes, name: str) -> bytes:
    def rename(program: Any) -> None:
        program.execution_plan[0].delegates[0].id = name

    return edited(pte, rename)


@pytest.fixture
def two_terms() -> Iterator[None]:
    yield
    registry.set_option(COMPILER, "sine_terms", 2)


def sine(pte: bytes, **options: Any) -> float:
    return float(load(pte, **options)(np.ones(1, np.float32))[0])


# ---- of a method ---------------------------------------------------------------------------


def test_option_of_a_method(sin_pte: bytes) -> None:
    assert sine(sin_pte) == pytest.approx(1 - 1 / 6, rel=1e-6)
    many = {COMPILER: {"sine_terms": 10}}
    assert sine(sin_pte, backend_options=many) == pytest.approx(np.sin(1), rel=1e-6)
    assert sine(sin_pte) == pytest.approx(1 - 1 / 6, rel=1e-6)


def test_methods_with_options_are_their_own(sin_pte: bytes) -> None:
    program = executorch_c.Runtime.get().load_program(sin_pte)
    default = program.load_method("forward")
    assert program.load_method("forward", backend_options=None) is default
    assert program.load_method("forward", backend_options={}) is default
    options = {COMPILER: {"sine_terms": 3}}
    assert program.load_method("forward", backend_options=options) is not default


def test_a_string_option() -> None:
    inputs = seeded((5, 4))
    pte = composite(lowered(torch.nn.Linear(4, 3), inputs, backend=EXECUTOR), inputs)
    load(pte, backend_options={EXECUTOR: {"method": "forward"}}).execute([inputs[0].numpy()])
    with pytest.raises(executorch_c.NotFoundError, match="no method 'backward'"):
        load(pte, backend_options={EXECUTOR: {"method": "backward"}})


@pytest.mark.parametrize("value", [True, 7, -(2**63), 0.25, "text", "é", np.int64(5)])
def test_every_kind_reaches_the_backend(sin_pte: bytes, value: Any) -> None:
    pte = of_backend(sin_pte, "FakeOptions")
    method = load(pte, backend_options={"FakeOptions": {"a": value, "b": 1}})
    expected = value.encode() if isinstance(value, str) else value
    assert fake.given == {b"a": expected, b"b": 1}
    assert type(fake.given[b"a"]) in (type(expected), int)
    assert method.backend_report()[0]["figures"]["options"] == 2
    np.testing.assert_array_equal(method(np.full(1, 3, np.float32)), [3])


BAD = [
    ({"Nobody": {"a": 1}}, executorch_c.InvalidArgumentError, f"'Nobody'.*are of '{COMPILER}'"),
    ({COMPILER: {"sine_terms": 17}}, executorch_c.InvalidArgumentError, "'sine_terms' is 17"),
    ({COMPILER: {"sine_terms": 1.0}}, executorch_c.InvalidArgumentError, "expected an int"),
    ({COMPILER: {"sine_term": 1}}, executorch_c.InvalidArgumentError, "unknown option 'sine_term'"),
    (
        {COMPILER: {"sine_terms": [1]}},
        TypeError,
        "BackendWithCompilerDemo: option 'sine_terms' must be a bool, int, float or str, not list",
    ),
    ({COMPILER: {"sine_terms": None}}, TypeError, "not NoneType"),
    ({COMPILER: {1: 1}}, TypeError, "must be a str, not int"),
    ({1: {}}, TypeError, "must be a str, not int"),
    ({COMPILER: 3}, TypeError, "must be a mapping, not int"),
    ([COMPILER], TypeError, "`backend_options` must be a mapping, not list"),
    ({COMPILER: {"sine_terms": 2**63}}, ValueError, "expected an int of 64 bits"),
    ({COMPILER: {"a\0b": 1}}, ValueError, "null character"),
]


@pytest.mark.parametrize(("options", "error", "match"), BAD)
def test_wrong_options(sin_pte: bytes, options: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        load(sin_pte, backend_options=options)
    assert sine(sin_pte, backend_options={COMPILER: {}}) == pytest.approx(1 - 1 / 6, rel=1e-6)


def test_a_method_without_delegates() -> None:
    pte = bytes(edge_program(Fn(torch.abs), SIN_INPUTS).to_executorch().buffer)
    with pytest.raises(executorch_c.InvalidArgumentError, match="the method has no delegates"):
        load(pte, backend_options={COMPILER: {"sine_terms": 2}})
    assert load(pte).backend_report() == []


# ---- of the process ------------------------------------------------------------------------


def test_option_of_the_process(sin_pte: bytes, two_terms: None) -> None:
    assert registry.option_keys(COMPILER) == ["sine_terms"]
    assert registry.get_option(COMPILER, "sine_terms") == 2
    loaded = load(sin_pte)
    registry.set_option(COMPILER, "sine_terms", 10)
    assert registry.get_option(COMPILER, "sine_terms") == 10
    assert sine(sin_pte) == pytest.approx(np.sin(1), rel=1e-6)
    assert sine(sin_pte, backend_options={COMPILER: {"sine_terms": 1}}) == 1
    assert float(loaded(np.ones(1, np.float32))[0]) == pytest.approx(1 - 1 / 6, rel=1e-6)


@pytest.mark.parametrize(
    ("key", "value"), [("flag", True), ("count", -5), ("share", 0.125), ("mode", "all")]
)
def test_every_kind_of_the_process(key: str, value: Any) -> None:
    first = VALUES[key.encode()]
    assert registry.get_option("FakeOptions", key) == (
        first.decode() if isinstance(first, bytes) else first
    )
    registry.set_option("FakeOptions", key, value)
    result = registry.get_option("FakeOptions", key)
    assert result == value and type(result) is type(value)
    assert registry.option_keys(backend_name="FakeOptions") == [k.decode() for k in VALUES]


@pytest.mark.parametrize("call", ["set_option", "get_option"])
def test_what_is_not_there_is_named(call: str) -> None:
    more = (1,) if call == "set_option" else ()
    with pytest.raises(executorch_c.NotFoundError, match=f"'Nobody' is not registered.*{COMPILER}"):
        getattr(registry, call)("Nobody", "a", *more)
    with pytest.raises(executorch_c.NotFoundError, match="no option 'a'; it has 'sine_terms'"):
        getattr(registry, call)(COMPILER, "a", *more)
    with pytest.raises(executorch_c.NotSupportedError, match=f"'{EXECUTOR}' has no options"):
        getattr(registry, call)(EXECUTOR, "method", *more)
    with pytest.raises(executorch_c.NotFoundError, match="'Nobody' is not registered"):
        registry.option_keys("Nobody")
    assert registry.option_keys(EXECUTOR) == []


def test_rejected_values() -> None:
    match = f"{COMPILER}: option 'sine_terms' is 0, expected 1 to 16"
    with pytest.raises(executorch_c.InvalidArgumentError, match=match):
        registry.set_option(COMPILER, "sine_terms", 0)
    with pytest.raises(executorch_c.NotSupportedError, match="FakeOptions: option 'fixed'"):
        registry.set_option("FakeOptions", "fixed", 0)
    with pytest.raises(TypeError, match="must be a bool, int, float or str, not bytes"):
        registry.set_option(COMPILER, "sine_terms", b"2")  # type: ignore[arg-type]
    assert registry.get_option(COMPILER, "sine_terms") == 2


# ---- backends from before there were options, and figures ------------------------------------


def test_a_backend_of_an_older_header(sin_pte: bytes) -> None:
    """Nothing beyond its struct_size is read: the pointers there are invalid."""
    pte = of_backend(sin_pte, "FakeOld")
    method = load(pte)
    np.testing.assert_array_equal(method(np.full(1, 2, np.float32)), [2])
    [row] = method.backend_report()
    assert row == {"backend": "FakeOld"} | NOTHING | {"figures": {}}
    assert registry.option_keys("FakeOld") == []
    with pytest.raises(executorch_c.NotSupportedError, match="'FakeOld' has no options"):
        load(pte, backend_options={"FakeOld": {"a": 1}})
    with pytest.raises(executorch_c.NotSupportedError, match="'FakeOld' has no options"):
        registry.set_option("FakeOld", "a", 1)


def test_a_struct_that_is_too_small_is_rejected() -> None:
    small = Fake("FakeSmall", {}, WITHOUT_OPTIONS - 1)
    match = f"at least {WITHOUT_OPTIONS} bytes"
    with pytest.raises(executorch_c.InvalidArgumentError, match=match):
        executorch_c.register_backend(small.capsule)
    assert not registry.is_available("FakeSmall")


def test_figures(sin_pte: bytes) -> None:
    method = load(sin_pte, backend_options={COMPILER: {"sine_terms": 5}})
    for calls in range(3):
        figures = {"operators": 1, "sine_terms": 5, "calls": calls}
        expected = {"backend": COMPILER} | NOTHING | {"figures": figures}
        assert method.backend_report() == [expected]
        method(np.ones(1, np.float32))
    specs = [CompileSpec("max_value", b"\x04")]
    inner = lowered(torch.sin, SIN_INPUTS, specs)
    assert len(load(composite(inner, SIN_INPUTS)).backend_report()) == 1
    [row] = load(nested(seeded(*THREE))[0]).backend_report()
    assert row == {"backend": EXECUTOR} | NOTHING | {"figures": {}}
