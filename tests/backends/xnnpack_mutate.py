"""Run damaged copies of programs: python xnnpack_mutate.py FOLDER CASES SEED [EXTENSION ...].

FOLDER has an .npz for each program: its bytes `pte`, and its inputs `x0`, ... The seed of each case
is printed before it runs, so that the last line identifies a crash. The numbers of loaded and
executed programs are printed at the end. EXTENSION is another build of the backend, or of its
operators.
"""

import importlib.util
import random
import re
import struct
import sys
from pathlib import Path

import numpy as np

import executorch_c as et
from executorch_c._backends import capsules

NUMBERS = [*range(9), 16, 31, 32, 64, 127, 255, 256, 1 << 16, (1 << 24) - 1, 1 << 24, 1 << 30]
NUMBERS += [(1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]


def payloads(pte: bytes) -> list[int]:
    """Return the offsets of payloads, which begin four bytes before their magic."""
    return [match.start() - 4 for match in re.finditer(b"XH00", pte)]


def damage(pte: bytearray, chance: random.Random) -> None:
    """Change one to three words or bytes of a payload's FlatBuffer or header."""
    start = chance.choice(payloads(bytes(pte)))
    offset, size = struct.unpack_from("<II", pte, start + 10)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        kind = chance.random()
        if kind < 0.05:
            pte[start + chance.randrange(30)] = chance.randrange(256)
        elif kind < 0.6:
            at = start + offset + 4 * chance.randrange(size // 4)
            (old,) = struct.unpack_from("<I", pte, at)
            near = (old + chance.choice([-2, -1, 1, 2, 4])) % (1 << 32)
            struct.pack_into("<I", pte, at, chance.choice([chance.choice(NUMBERS), near]))
        else:
            at = start + offset + chance.randrange(size)
            pte[at] = chance.choice([chance.randrange(48), pte[at] ^ 1 << chance.randrange(8)])


def use(extension: str) -> None:
    """Register a plug-in before the discovery of the installed one."""
    name = Path(extension).name.partition(".")[0]
    spec = importlib.util.spec_from_file_location(name, extension)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "operators"):
        for library in capsules(module, "operators"):
            et.register_operators(library)
        return
    for capsule in capsules(module, "backends"):
        et.register_backend(capsule)


def main() -> None:
    for extension in sys.argv[4:]:
        use(extension)
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    programs = []
    for path in sorted(folder.glob("*.npz")):
        arrays = dict(np.load(path))
        programs.append((arrays.pop("pte").tobytes(), list(arrays.values())))
    loaded = ran = 0
    for case in range(seed * 1_000_000, seed * 1_000_000 + cases):
        chance = random.Random(case)
        pte, inputs = chance.choice(programs)
        copy = bytearray(pte)
        damage(copy, chance)
        print(case, flush=True)
        try:
            program = et.Runtime.get().load_program(bytes(copy))
            program._delegate("forward", 0)
            method = program.load_method("forward")
            loaded += 1
            for _ in range(2):
                method.execute(inputs)
            ran += 1
        except (et.Error, MemoryError):
            pass
    print(loaded, ran)


if __name__ == "__main__":
    main()
