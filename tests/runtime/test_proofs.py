"""The proofs of csrc/proofs with CBMC, where it is installed, and faults that they must find."""

import re
import sys
from pathlib import Path

import pytest

from tests import ROOT

sys.path.append(str(ROOT / "csrc/proofs"))
import prove

SCHEMAS = [
    path
    for folder in ("csrc", "backends")
    for path in sorted((ROOT / folder).rglob("*.def"))
    if ", UNION, " in path.read_text()
]
needs_cbmc = pytest.mark.skipif(prove.command() is None, reason="CBMC is not installed")


@pytest.mark.heavy
@needs_cbmc
@pytest.mark.parametrize("proof", prove.PROOFS, ids=lambda proof: proof.name)
def test_proof(proof: prove.Proof) -> None:
    holds, failures, _ = prove.run(proof)
    assert holds, failures


@pytest.mark.heavy
@needs_cbmc
@pytest.mark.parametrize("fault", prove.FAULTS, ids=lambda fault: fault.name)
def test_fault(fault: prove.Fault) -> None:
    """A proof that could not fail would show nothing."""
    holds, failures, _ = prove.run_fault(fault)
    assert not holds and failures


def test_tables_are_whole() -> None:
    """Each proof has a row here and in the README, each file of the folder a proof; the text of
    each fault is in its file."""
    names = [proof.name for proof in prove.PROOFS]
    assert len(set(names)) == len(names)
    written = {path.stem.removeprefix("prove_") for path in prove.CSRC.glob("proofs/prove_*.c")}
    assert written == {proof.file for proof in prove.PROOFS}
    for name in written:
        text = (prove.CSRC / f"proofs/prove_{name}.c").read_text()
        functions = set(re.findall(r"^static void prove_(\w+)\(void\)", text, re.MULTILINE))
        assert functions == {p.function for p in prove.PROOFS if p.file == name}
    readme = (prove.CSRC / "proofs/README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)`", readme, re.MULTILINE)) == set(names)
    for fault in prove.FAULTS:
        assert prove.find(fault.proof)
        assert fault.old in (prove.CSRC / fault.file).read_text()


@pytest.mark.parametrize("table", SCHEMAS, ids=lambda path: str(path.relative_to(ROOT)))
def test_schemas_have_the_types_of_unions(table: Path) -> None:
    """`fb_reads_union` assumes a row for the type: an accessor reads it without a value, too."""
    text = table.read_text()
    unions = re.findall(r"^EC_FB_FIELD\((\w+), (\d+), (\w+), UNION,", text, re.MULTILINE)
    assert unions
    for name, number, field in unions:
        row = rf"^EC_FB_FIELD\({name}, {int(number) - 1}, {field}_type, SCALAR, (1|U8)\)"
        assert re.search(row, text, re.MULTILINE), f"{name}.{field} has no row of its type"
