"""Files of newer versions, and files, directories and objects that are no programs: each is named,
with what to do."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import Error, InvalidExternalDataError, InvalidProgramError, Runtime
from executorch_c.bundled import BundledProgram
from tests.plans import adding, build, edited

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^EC_(FILE|FOLDER|OBJECT)_KIND\((.*?)\)$", re.M | re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def literal(text: str) -> bytes:
    """Return the bytes of adjacent C string literals."""
    octal = re.compile(r"\\([0-7]{1,3})(?![0-7])")
    parts = [octal.sub(lambda m: f"\\x{int(m[1], 8):02x}", part) for part in STRING.findall(text)]
    return b"".join(part.encode().decode("unicode_escape").encode("latin1") for part in parts)


def rows() -> list[tuple[str, list[str]]]:
    """Return the kinds and arguments of kinds.def."""
    text = (ROOT / "csrc/format/kinds.def").read_text().partition("#define")[2]
    argument = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",])+')
    return [(kind, argument.findall(body)) for kind, body in ROW.findall(text)]


ROWS = rows()
EXPORT = "to_edge_transform_and_lower"


def load(source: Any) -> Any:
    return Runtime.get().load_program(source)


# ---- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 2**32 - 1])
def test_a_program_of_a_newer_schema_is_refused_with_both_numbers(version: int) -> None:
    pte = edited(build(adding()[0]), lambda program: setattr(program, "version", version))
    with pytest.raises(InvalidProgramError, match=f"version {version} of.*at most 0"):
        load(pte)


def test_files_of_a_newer_schema_are_refused_with_both_numbers() -> None:
    from executorch_c import _core, _flatbuffers

    def written(kind: str, root: str, **values: Any) -> bytes:
        tables = _core._file_tables(kind)
        identifier = {"ptd": b"FT01", "bpte": b"BP08"}[kind]
        return _flatbuffers.write(values, tables, root, "a test", identifier=identifier)

    pte = build(adding()[0])
    flat = written("ptd", "FlatTensor", version=3, segments=[], named_data=[])
    head = b"FH01" + np.array([40], "<u4").tobytes()
    numbers = np.array([48, len(flat), 48 + len(flat), 0], "<u8").tobytes()
    root = (int.from_bytes(flat[:4], "little") + 40).to_bytes(4, "little")
    ptd = root + b"FT01" + head + numbers + flat[8:]
    ptd = ptd.ljust(256, b"\0")
    with pytest.raises(InvalidExternalDataError, match="version 3 of.*at most 0"):
        Runtime.get().load_program(pte, data_path=ptd)
    bundled = written("bpte", "BundledProgram", version=4, method_test_suites=[], program=pte)
    with pytest.raises(InvalidProgramError, match="version 4 of.*at most 2"):
        BundledProgram.load(bundled)


# ---- other kinds -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", range(len(ROWS)), ids=lambda i: f"{ROWS[i][0]}-{i}")
def test_each_row_is_named_with_what_to_do(row: int, tmp_path: Path) -> None:
    kind, (*key, what, _) = ROWS[row]
    errors: str
    source: Any
    name = literal(what).decode()
    if kind == "FILE":
        magic, inside = literal(key[1]).replace(b"?", b"\x07"), literal(key[2])
        if magic == b"ET12" or inside == b"program.ptg":
            return  # programs
        data = (b"\1\0" * 200)[: int(key[0])] + magic + b"\2" * 60 + inside
        errors, name, source = "is not a .pte program but ", f"{name}: ", data.ljust(400, b"\0")
    elif kind == "FOLDER":
        (tmp_path / literal(key[0]).decode()).touch()
        errors, name, source = " is ", f"{name}: ", tmp_path
    else:
        base = type(literal(key[0]).decode(), (), {})
        errors, name, source = "this is ", f"{name}: ", type("Mine", (base,), {})()
    with pytest.raises((Error, TypeError)) as info:
        load(source)
    assert errors + name in str(info.value)


def real_files(folder: Path) -> dict[str, str]:
    """Write files of other libraries, and return the sentences that name them."""
    net, x = torch.nn.Linear(2, 2).eval().requires_grad_(False), torch.ones(1, 2)
    exported = torch.export.export(net, (x,))
    torch.export.save(exported, folder / "x.pt2")
    torch.jit.save(torch.jit.trace(net, x), folder / "x.torchscript")
    torch.save(net.state_dict(), folder / "x.pt")
    torch.save(net.state_dict(), folder / "old.pt", _use_new_zipfile_serialization=False)
    np.savez(folder / "x.npz", x.numpy())
    np.save(folder / "x.npy", x.numpy())
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (folder / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    (folder / "x.onnx").write_bytes(b"\x08\x08\x12\x07pytorch" + b"\x1a\x032.1" + b"\x3a\x60" * 40)
    (folder / "x.mlmodel").write_bytes(b"\x08\x04\x12\x4a\x0a\x1b\x0a\x01x" + b"\x1a\x16" * 40)
    return {
        "x.pt2": f"a .pt2 archive .*torch.export.load it.*{EXPORT}",
        "x.torchscript": f"a TorchScript archive.*{EXPORT}",
        "x.pt": "an archive of torch.save: it has weights without a graph",
        "old.pt": "a file of torch.save: it has weights",
        "x.npz": "an .npz archive of arrays",
        "x.npy": "a .npy array",
        "x.safetensors": "a safetensors file.*weights without a graph",
        "x.onnx": f"an ONNX model.*{EXPORT}",
        "x.mlmodel": f"a Core ML model .*{EXPORT}",
    }


def test_files_of_other_libraries_are_named(tmp_path: Path) -> None:
    for name, sentence in real_files(tmp_path).items():
        with pytest.raises(InvalidProgramError, match=sentence):
            load(tmp_path / name)
    with pytest.raises(InvalidExternalDataError, match=r"not a .ptd file but a safetensors"):
        Runtime.get().load_program(build(adding()[0]), data_path=tmp_path / "x.safetensors")


def test_objects_of_the_export_are_named() -> None:
    from executorch.exir import to_edge

    net = torch.nn.Linear(2, 2).eval().requires_grad_(False)
    exported = torch.export.export(net, (torch.ones(1, 2),))
    edge = to_edge(exported)
    managed = edge.to_executorch()
    for source, sentence in {
        exported: f"an exported program that was never lowered.*{EXPORT}",
        edge: r"never lowered: call its to_executorch\(\)",
        managed: "pass its .buffer",
        net: "a PyTorch module: torch.export.export it",
    }.items():
        with pytest.raises(TypeError, match=sentence):
            load(source)
    assert executorch_c.load(managed).method_names == {"forward"}


def test_the_command_line_names_a_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from executorch_c import cli

    (tmp_path / "x.gguf").write_bytes(b"GGUF".ljust(100, b"\1"))
    assert cli.main(["info", str(tmp_path / "x.gguf")]) == 1
    assert "a GGUF file (weights for llama.cpp): it has weights" in capsys.readouterr().err
