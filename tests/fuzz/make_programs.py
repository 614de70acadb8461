"""Write the seed programs of the fuzzer: python -m tests.fuzz.make_programs DIRECTORY [SEED].

Small models of the zoo, programs of the demo backends, random ones of many instructions
(random_plans.py), two programs per operator (with calls that work and with random ones), and all of
these but random ones with hostile values, by the official serializer. The fuzzer itself damages
bytes.
"""

import sys
from pathlib import Path

import numpy as np

MODELS = (
    "mlp accumulator cond cond_twice map_loop symbolic kv_cache_slice channels_last "
    "scalar_inputs shared_state io_unplanned dynamic_batch"
).split()
BASE = "dynamic_batch"  # of the named cases


def write_all(folder: Path, seed: int = 1, variants: int = 20) -> int:
    """Write all programs; return the number of files."""
    from tests.backends import demo_programs
    from tests.fuzz import random_calls
    from tests.fuzz import random_plans
    from tests.fuzz import sample_calls
    from tests.fuzz.hostile import CASES, hostile, random_damage
    from tests.models.zoo import export

    folder.mkdir(parents=True, exist_ok=True)
    files = {f"model_{name}": export(name) for name in MODELS}
    files |= {f"demo_{name}": data for name, data in demo_programs.programs().items()}
    rng = np.random.default_rng(seed)
    for name, data in list(files.items()):
        for i in range(variants):
            damaged = random_damage(data, rng)
            if damaged is not None:
                files[f"value_{name}_{i}"] = damaged
    for name, (change, _) in CASES.items():
        files[f"case_{name}"] = hostile(export(BASE), change)
    files |= dict(random_plans.programs(seed))
    for kind, module in (("op", random_calls), ("sample", sample_calls)):
        for name, data in module.programs(seed):  # type: ignore[attr-defined]
            files[f"{kind}_{name}"] = data
            damaged = random_damage(data, rng)
            if damaged is not None:
                files[f"{kind}value_{name}"] = damaged
    for name, data in files.items():
        (folder / f"{name}.pte").write_bytes(data)
    return len(files)


if __name__ == "__main__":
    print(write_all(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1), "programs")
