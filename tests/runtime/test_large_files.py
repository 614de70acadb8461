"""Programs with large weights: memory holds each of them once, and results keep their bits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Method, Runtime
from tests.backends.xnnpack_layers import Sizes, write
from tests.backends.xnnpack_series import needs_xnnpack
from tests.plans import BOUNDED, Constants, Plan, build, load
from tests.process import python

WIDTH, LAYERS, MOST_ROWS = 1024, 16, 200
"""Linear layers with weights of 4 MB each."""
FILE = 4 * WIDTH * WIDTH * LAYERS
LIMIT = 1.2
"""Peak memory of loading and calling, in sizes of the file."""
BITS_LIMIT = 1.15

CALLS = """
import json, sys
import numpy as np
from executorch_c import Runtime

def figure(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024

path, rows, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
x = np.ones((rows, {width}), np.float32)
if options.get("delegate_at_load") is not False:  # the backend's code is not the program's memory
    Runtime.get().backend_registry.registered_backend_names
before = figure("VmRSS")
method = Runtime.get().load_program(path).load_method("forward", **options)
loaded = figure("VmHWM") - before
for _ in range(4):
    method.execute([x])
print(json.dumps({{"loaded": loaded, "peak": figure("VmHWM") - before}}))
"""


def weights(seed: int, shape: tuple[int, int], dtype: str) -> np.ndarray:
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return random.integers(-9, 9, shape).astype(dtype)
    return (random.standard_normal(shape) / 32).astype(dtype)


def layers(how: str, count: int = 1, dtype: str = "float32", width: int = WIDTH) -> bytes:
    """Return a program of linear layers, as the exporter decomposes them: a transposition of the
    weight, and a product."""
    plan, constants = Plan(), Constants()
    x = plan.input((MOST_ROWS, width), dtype, dynamism=BOUNDED)
    bias = plan.constant(constants, weights(9, (1, width), dtype)[0])
    for layer in range(count):
        make = plan.output if layer == count - 1 else plan.tensor
        w = plan.constant(constants, weights(layer, (width, width), dtype))
        turned = plan.tensor((width, width), dtype)
        y = make((MOST_ROWS, width), dtype, dynamism=BOUNDED)
        if "t_copy" in how:
            plan.call("aten::t_copy.out", w, turned)
        elif "transpose" in how:
            plan.call("aten::transpose_copy.int_out", w, -1, 0, turned)
        else:
            plan.call("aten::permute_copy.out", w, [1, 0], turned)
        if "addmm" in how:
            plan.call("aten::addmm.out", bias, x, turned, 1, 1, y)
        else:
            plan.call("aten::mm.out", x, turned, y)
        x = y
    return build(plan, constants=constants)


def rows(count: int, dtype: str = "float32", width: int = WIDTH) -> np.ndarray:
    return weights(count, (count, width), dtype)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "layers.pte"
    path.write_bytes(layers("permute, addmm", LAYERS))
    return path


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("options", [{}, {"delegate_at_load": False}], ids=["default", "kernels"])
def test_memory_holds_weights_once(file: Path, batch: int, options: dict[str, Any]) -> None:
    code = CALLS.format(width=WIDTH)
    done = python("-c", code, file, batch, json.dumps(options), cwd=file.parent)
    report = json.loads(done.stdout)
    assert report["loaded"] < FILE // 8  # nothing is copied or packed
    assert report["peak"] < LIMIT * FILE + (8 << 20)  # caches, code, the call's own memory


@needs_xnnpack
@pytest.mark.parametrize("blocks", [2, pytest.param(10, marks=pytest.mark.heavy)])
def test_memory_holds_delegated_weights_of_4_bits_once(tmp_path: Path, blocks: int) -> None:
    """Loading reads the scales of groups, a ninth of the file; the first products pack tiles that
    they forget, the third ones give back the file's pages (or, elsewhere, loading)."""
    width = 4096 if blocks > 2 else 2048
    sizes = Sizes(blocks, width, width * 7 // 2, width)
    write(tmp_path / "layers.pte", sizes, {"forward": 100})
    size = (tmp_path / "layers.pte").stat().st_size
    assert size > sizes.weights // 2
    for batch in (1, 100):
        code = CALLS.format(width=width)
        done = python("-c", code, tmp_path / "layers.pte", batch, "{}", cwd=tmp_path)
        assert json.loads(done.stdout)["peak"] < BITS_LIMIT * size + (16 << 20)


@pytest.mark.parametrize(
    ("how", "dtype"),
    [("permute, addmm", "float32"), ("t_copy, mm", "float32"), ("transpose, mm", "float16")]
    + [("permute, addmm", "float64"), ("t_copy, mm", "int32")],
)
def test_a_weight_in_place_has_the_bits_of_its_copy(how: str, dtype: str) -> None:
    pte = layers(how, dtype=dtype)
    in_place = load(pte, delegate_at_load=False)
    copied = load(pte, delegate_at_load=False, passes=[])
    assert in_place.memory()["folded"] == 0
    for count in (1, 2, 3, 100):
        x = rows(count, dtype)
        (y,) = in_place.execute([x])
        np.testing.assert_array_equal(y, copied.execute([x])[0])
        wide = "int64" if dtype == "int32" else "float64"
        exact = x.astype(wide) @ weights(0, (WIDTH, WIDTH), dtype).T.astype(wide)
        exact += weights(9, (1, WIDTH), dtype) if "addmm" in how else 0
        limit = {"float16": 0.01, "float32": 1e-5}.get(dtype, 1e-12)
        np.testing.assert_allclose(y, exact, rtol=limit, atol=limit)


def test_one_row_packs_nothing(file: Path) -> None:
    method = Runtime.get().load_program(file).load_method("forward", delegate_at_load=False)
    method.execute([rows(1)])
    memory = method.memory()
    assert (memory["folded"], memory["packed"], memory["recorded"]) == (0, 0, 0)
    method.execute([rows(100)])
    assert FILE <= method.memory()["packed"] < 1.1 * FILE


def results(method: Method, x: np.ndarray) -> list[np.ndarray]:
    return [method.execute([x])[0] for _ in range(3)]


@pytest.mark.parametrize("options", [{}, {"delegate_at_load": False}], ids=["default", "kernels"])
def test_threads(options: dict[str, Any]) -> None:
    pte, x = layers("permute, addmm", 2), rows(1)
    (one, *more), *others = (
        results(load(pte, num_threads=threads, **options), x) for threads in (1, 2, 3)
    )
    for y in more + [y for other in others for y in other]:
        np.testing.assert_array_equal(y, one)


@pytest.mark.parametrize("batch", [1, 100])
def test_a_traced_call_executes_the_transposition(batch: int) -> None:
    method, x = load(layers("permute, addmm", 2), delegate_at_load=False), rows(batch)
    before = method.execute([x])[0]
    with method.tracing(values=True) as trace:
        np.testing.assert_array_equal(method.execute([x])[0], before)
    names = [event.name for event in trace.events]
    assert names.count("aten::permute_copy.out") == 2
    packed = method.memory()["packed"]
    np.testing.assert_array_equal(method.execute([x])[0], before)
    assert method.memory()["packed"] == packed


def test_a_transposition_with_another_reader_is_a_copy() -> None:
    plan, constants = Plan(), Constants()
    w = plan.constant(constants, weights(0, (WIDTH, WIDTH), "float32"))
    x, turned = plan.input((2, WIDTH)), plan.tensor((WIDTH, WIDTH))
    y, z = plan.output((2, WIDTH)), plan.output((WIDTH, WIDTH))
    plan.call("aten::permute_copy.out", w, [1, 0], turned)
    plan.call("aten::mm.out", x, turned, y)
    plan.call("aten::mul.Scalar_out", turned, 2.0, z)
    method = load(build(plan, constants=constants), delegate_at_load=False)
    assert method.memory()["folded"] >= 4 * WIDTH * WIDTH
    doubled = 2 * weights(0, (WIDTH, WIDTH), "float32").T
    np.testing.assert_array_equal(method.execute([rows(2)])[1], doubled)


def test_an_identity_is_no_transposition() -> None:
    """The dimensions of permute_copy are in their order."""
    plan, constants = Plan(), Constants()
    w = plan.constant(constants, weights(0, (WIDTH, WIDTH), "float32"))
    x, same, y = plan.input((1, WIDTH)), plan.tensor((WIDTH, WIDTH)), plan.output((1, WIDTH))
    plan.call("aten::permute_copy.out", w, [0, 1], same)
    plan.call("aten::mm.out", x, same, y)
    method = load(build(plan, constants=constants), delegate_at_load=False)
    exact = rows(1).astype("float64") @ weights(0, (WIDTH, WIDTH), "float32")
    np.testing.assert_allclose(method.execute([rows(1)])[0], exact, rtol=1e-5, atol=1e-5)
