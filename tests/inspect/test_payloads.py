"""Payloads of backends without an engine here: what info, dump and errors say about them."""

import json
import random
import re
import struct
from pathlib import Path

import pytest

import executorch_c
from executorch_c import Runtime, cli
from executorch_c.devtools import dump
from executorch_c.inspect import payloads
from tests import ROOT
from tests.plans import Plan, build, schema

PROGRAMS = ROOT / "tests" / "backends" / "programs"
ROWS = dict(
    re.findall(
        r'^EC_KNOWN_BACKEND\("(\w+)", "([^"]+)"',
        (ROOT / "csrc/backend/known.def").read_text(),
        re.M,
    )
)


def qnn(signature: int = -7, size: int = 100) -> bytes:
    return struct.pack("<IqQ", 0x5678ABCD, signature, size).ljust(256, b"\0") + b"x" * size


def neutron() -> bytes:
    head = bytes([1, 2, 1, 0, 0, 0, 0, 0, 0, 1])  # flags and maps of 3 tensors, version 1
    words = struct.pack("<8I", 0x64434D6E, 0, 0, 0, 0, 0, 640, 4096)
    return head.ljust(16, b"\0") + words


MADE = {
    "CoreAIBackend": (
        json.dumps({"packaging": "aot_compiled_inline", "hash": "a" * 64}).encode(),
        f"hash: SHA-256 {'a' * 64}",
    ),
    "CudaBackend": (b"a" * 64 + b"_so_blob\n" + b"b" * 64 + b"_weights_blob", "AOTInductor"),
    "EnnBackend": (b"anything", ""),
    "MPSBackend": (b"\0\0\0\0MP00" + struct.pack("<QQ", 64, 77), "77 bytes at 64"),
    "MetalBackend": (b"a_so_blob\nb_weights_blob", "named data: b_weights_blob"),
    "NeuropilotBackend": (struct.pack("<BIII", 2, 3, 1, 5) + b"12345", "header version 2"),
    "NeutronBackend": (neutron(), "Neutron microcode, payload version 1"),
    "QnnBackend": (qnn(), "signature: -7"),
}
"""Payloads as the runtimes of these backends read them, and a text about each."""

ARTIFACTS = {
    "coreml_mlp_fp16": ("CoreMLBackend", r"file weight\.bin: [\d,]+ bytes"),
    "ethos_u55_128_mlp_int8": ("EthosUBackend", "weight_data: 4,368 bytes"),
    "ethos_u85_256_cnn_int8": ("EthosUBackend", r"inputs: 1: \[1, "),
    "mlx_mlp": ("MLXBackend", "data: 0 bytes at 1,296"),
    "native_mlp": ("NativeBackend", "portable graph"),
    "tosa_mlp_int8": ("TOSABackend", "TOSA graph"),
    "vgf_mlp_int8": ("VgfBackend", r"format: VGF 0\.5\.0"),
    "vulkan_mlp_w8": ("VulkanBackend", "Vulkan graph .FlatBuffer 'VK00'."),
}


def program(backend: str, payload: bytes) -> bytes:
    plan = Plan()
    x, y = plan.input((2,)), plan.output((2,))
    delegate = plan.delegate(backend, 0, [schema.CompileSpec("target", b"chip-7\x1b[31m")])
    plan.append(schema.DelegateCall(delegate, [x, y]))
    return build(plan, payloads=[payload])


def is_registered(backend: str) -> bool:
    return backend in Runtime.get().backend_registry.registered_backend_names


def test_every_reader_has_a_row() -> None:
    assert set(payloads.READERS) <= set(ROWS)
    assert list(ROWS) == sorted(ROWS)


DEMONSTRATIONS = {"BackendWithCompilerDemo", "BackendWithNamedDataMap", "ExecutorBackend"}


def ids_of_the_wheel() -> set[str]:
    """Return names of classes that preprocess payloads, outside its tests."""
    import executorch.backends

    folder = Path(next(iter(executorch.backends.__path__)))
    texts = [path.read_text() for path in folder.rglob("*.py") if "test" not in path.stem]
    return {
        name
        for text in texts
        if "BackendDetails" in text
        for name in re.findall(r"^class (\w+)\([^)]*\bBackendDetails\)", text, re.M)
    }


def test_every_backend_of_the_wheel_has_a_row() -> None:
    ids = ids_of_the_wheel()
    assert {"CoreAIBackend", "MetalBackend", "XnnpackBackend"} <= ids and len(ids) >= 17
    assert ids - set(ROWS) - DEMONSTRATIONS == set()


@pytest.mark.parametrize("backend", [name for name in ROWS if not is_registered(name)])
def test_loading_says_what_is_needed(backend: str) -> None:
    loaded = Runtime.get().load_program(program(backend, b"x"))
    with pytest.raises(executorch_c.NotFoundError) as caught:
        loaded.load_method("forward")
    says = f"{backend} is {ROWS[backend]}, which needs "
    assert says in str(caught.value)
    (use,) = loaded.info()["methods"][0]["delegates"]
    assert (use["lacks"] or "").startswith(says)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_artifacts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend, says = ARTIFACTS[name]
    path = PROGRAMS / f"{name}.pte"
    assert re.search(says, str(dump(path)))
    if is_registered(backend):
        return
    assert cli.main(["info", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{backend} is {ROWS[backend]}, which needs" in out
    assert f"delegate 0: {backend}" in out and "format" in out


def test_ethos_u_says_what_to_lower_instead(capsys: pytest.CaptureFixture[str]) -> None:
    path = PROGRAMS / "ethos_u55_128_mlp_int8.pte"
    cli.main(["info", str(path)])
    out = " ".join(capsys.readouterr().out.split())
    assert "compile spec tosa_spec: 'TOSA-1.0+INT+int16+int4+u55'" in out
    with pytest.raises(executorch_c.NotFoundError, match="TOSABackend at the same tosa_spec") as e:
        executorch_c.load(path).load_method("forward")
    assert "its tosa_spec is 'TOSA-1.0+INT+int16+int4+u55'" in str(e.value)


@pytest.mark.parametrize("backend", MADE)
def test_made_up_payloads(backend: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    payload, says = MADE[backend]
    path = tmp_path / "x.pte"
    path.write_bytes(program(backend, payload))
    text = str(dump(path))
    assert says in text and "\x1b" not in text
    row = json.loads(dump(path, "json"))["method_structures"][0]["delegates"][0]
    assert bool(row["facts"]) == bool(says)
    assert cli.main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert ("target" in out or is_registered(backend)) and "\x1b" not in out


@pytest.mark.parametrize("backend", payloads.READERS)
def test_damaged_payloads(backend: str) -> None:
    """Any bytes give facts or none, never an exception."""
    good = MADE.get(backend, (b"",))[0]
    for name, (owner, _) in ARTIFACTS.items():
        if owner == backend:
            program_ = executorch_c.load(PROGRAMS / f"{name}.pte")
            good = program_._payload("forward", 0)
    assert payloads.facts(backend, good)
    pick = random.Random(3)
    for size in [*range(80), *(pick.randrange(len(good) + 1) for _ in range(50))]:
        payloads.facts(backend, good[:size])
    for _ in range(500):
        changed = bytearray(good)
        for _ in range(pick.randrange(1, 6)):
            changed[pick.randrange(len(changed))] = pick.randrange(256)
        facts = payloads.facts(backend, bytes(changed))
        assert len(facts) <= payloads.MAX_FACTS + 1
        assert all(len(text) <= payloads.MAX_TEXT for _, text in facts)


def test_a_wrong_index_of_core_ml() -> None:
    for text in (
        *('{"nodes": 3}', '{"nodes": [3]}', "[]", '{"nodes": [{"kind": 0, "dataRegion": []}]}'),
        *('{"nodes": [{"kind": 0, "dataRegion": {"size": "x"}}]}', "{" * 100_000),
        '{"nodes": [{"kind": 0, "dataRegion": {"size": null}}]}',
    ):
        payloads.facts("CoreMLBackend", text.encode()[::-1])
