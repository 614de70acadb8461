#!/usr/bin/env python3
"""Run the proofs of this folder with CBMC: `make -C csrc prove`, or `make -C csrc prove-faults`.

    proofs/prove.py [--faults] [--list] [NAME...]

NAME is a part of a proof's name. With --faults, each fault of FAULTS is planted in a copy of its
file, and the proof must fail. $CBMC names the program (default: cbmc).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

CSRC = Path(__file__).resolve().parents[1]
SECONDS = 300
"""At most for one proof, of processor time: a busy machine does not end it."""
OPTIONS = [
    *("--unwind", "9", "--unwinding-assertions", "--object-bits", "12"),
    *("--bounds-check", "--pointer-check", "--pointer-primitive-check"),
    *("--signed-overflow-check", "--undefined-shift-check", "--div-by-zero-check"),
]
MISSING = """CBMC is not installed: apt-get install cbmc (Debian 13), or
csrc/proofs/get_cbmc FOLDER (Debian 12) and CBMC=FOLDER/cbmc"""


@dataclass(frozen=True)
class Proof:
    file: str
    function: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.file}_{self.function}"


@dataclass(frozen=True)
class Fault:
    """A fault in a file, as a text in it and what stands there instead."""

    proof: str
    file: str
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.proof}: {self.new.strip() or 'without ' + self.old.strip()}"


UNSIGNED = ("--unsigned-overflow-check",)  # where the code does not mean to wrap
PROOFS = [
    *(Proof("checked", name) for name in ("sizes", "integers", "products", "ranges")),
    *(Proof("arena", name, UNSIGNED) for name in ("request", "ends")),
    *(Proof("fb_parts", name) for name in ("table", "field", "offset", "vector", "string")),
    *(Proof("fb_reads", name) for name in ("scalar", "string", "vector", "child", "union")),
    *(Proof("fb_reads", name) for name in ("strings", "tables")),
    *(Proof("pte", name) for name in ("open", "segment", "inline")),
    Proof("ptd", "segment"),
]
FB = "format/fb.c"
FAULTS = [
    Fault("checked_sizes", "core/checked.h", "!__builtin_add_overflow(a, b", "(*out = a + b"),
    Fault("checked_ranges", "core/checked.h", "size <= total - offset", "size < total - offset"),
    Fault("checked_products", "core/checked.h", "mul_overflow(a, b", "mul_overflow(a, b | 1"),
    Fault("arena_request", "core/arena.c", "arena->blocks->size)", "arena->blocks->size + 1)"),
    Fault("arena_request", "core/arena.c", "size * 2 : need;", "size * 2 : need - 1;"),
    Fault("arena_request", "core/arena.c", "~(align - 1)", "~(align - 2)"),
    Fault("arena_ends", "core/arena.c", "arena->total -= old->size + HEADER", "arena->total -= 1"),
    Fault("fb_parts_table", FB, "(uint64_t)vtable, 4,", "(uint64_t)vtable, 3,"),
    Fault("fb_parts_table", FB, "  v->tables--;\n", ""),
    Fault("fb_parts_field", FB, "(*out, width, v->size)", "(*out, 1, v->size)"),
    Fault("fb_parts_field", FB, "at + offset : 0", "at + offset + 1 : 0"),
    Fault("fb_parts_offset", FB, "offset < OFFSET_BYTES)", "offset < 1)"),
    Fault("fb_parts_vector", FB, "v->size - at - OFFSET_BYTES;", "v->size - at;"),
    Fault("fb_parts_string", FB, "end >= v->size", "end > v->size"),
    Fault("fb_reads_vector", FB, "at + offset : 0", "at + offset + 1 : 0"),
    Fault("fb_reads_union", FB, "type >= field->table_count", "type"),
    Fault("pte_open", "format/pte.c", "pte->program_size > pte->size)", "false)"),
    Fault("pte_segment", "format/pte.c", "!ec_in_range(offset, size, room)", "size > room"),
    Fault("ptd_segment", "format/ptd.c", "!ec_in_range(offset, size, ptd", "(size > ptd"),
]


def command() -> str | None:
    """Return the path of CBMC; None if it is not installed."""
    return shutil.which(os.environ.get("CBMC", "cbmc"))


def used() -> float:
    """Return the processor time of ended child processes in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(proof: Proof, first: Path = CSRC) -> tuple[bool, list[str], float]:
    """Run a proof, with files of a folder in place of the tree's; return whether it holds, what
    fails, and its seconds. An error of CBMC, or no answer in time, raises RuntimeError."""
    start = used()
    cbmc = command()
    assert cbmc, MISSING
    outputs = subprocess.run(
        [
            *(cbmc, *OPTIONS, *proof.options, f"-I{first}", "-I.", "-Iinclude"),
            *(f"-DEC_PROVE=prove_{proof.function}", f"proofs/prove_{proof.file}.c"),
        ],
        cwd=CSRC,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
    )
    seconds = used() - start
    if outputs.returncode < 0:
        raise RuntimeError(f"{proof.name}: no answer in {SECONDS} s of processor time")
    text = outputs.stdout
    failures = re.findall(r"^\[[^\]]+\] (line .*): FAILURE$", text, re.MULTILINE)
    holds = "VERIFICATION SUCCESSFUL" in text
    if outputs.returncode != (0 if holds else 10) or not (holds or failures):
        raise RuntimeError(f"{proof.name}: {outputs.stderr[-2000:] or text[-2000:]}")
    return holds, failures, seconds


def find(name: str) -> Proof:
    """Return the proof of a name."""
    return next(proof for proof in PROOFS if proof.name == name)


def plant(fault: Fault, folder: Path) -> None:
    """Write the file with the fault, wherever its old text is, to a folder."""
    text = (CSRC / fault.file).read_text()
    assert fault.old in text, f"{fault.file} lacks {fault.old!r}"
    (folder / fault.file).parent.mkdir(parents=True)
    (folder / fault.file).write_text(text.replace(fault.old, fault.new))


def run_fault(fault: Fault) -> tuple[bool, list[str], float]:
    """Run a proof with a fault; return as `run` does."""
    with tempfile.TemporaryDirectory() as folder:
        plant(fault, Path(folder))
        return run(find(fault.proof), Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", action="store_true", help="plant faults, which must be found")
    parser.add_argument("--list", action="store_true", help="only the names")
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    options = parser.parse_args()
    rows: list[Proof | Fault] = list(FAULTS if options.faults else PROOFS)
    rows = [r for r in rows if not options.names or any(n in r.name for n in options.names)]
    if options.list:
        print(*(row.name for row in rows), sep="\n")
        return 0
    if not command():
        print(MISSING, file=sys.stderr)
        return 2
    wrong = 0
    for row in rows:
        print(f"{row.name:<60.60} ", end="", flush=True)
        holds, failures, seconds = run_fault(row) if isinstance(row, Fault) else run(row)
        good = holds != options.faults
        said = ("holds" if holds else "fails") if good else "WRONG"
        print(f"{said:<6} {seconds:6.1f} s", flush=True)
        if not good:
            wrong += 1
            print(*failures, sep="\n")
    print(f"{len(rows) - wrong} of {len(rows)} as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
