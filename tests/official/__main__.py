"""Run the official flow's own tests on this runtime, and print how many pass.

    python -m tests.official            # all operators of XNNPACK: some minutes
    python -m tests.official test_add.py test_linear.py
    python -m tests.official runtime    # bindings, runtime, emitter, inspector, bundled programs

They come with the executorch wheel (backends/xnnpack/test/ops, and the files of RUNTIME) and
compare with eager; only the module that runs programs is exchanged, by official_swap.py.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests import IN_PLACE, ROOT

HERE = Path(__file__).resolve().parent

RUNTIME = {
    "extension/pybindings/test/test_pybindings.py": 41,
    "extension/pybindings/test/test_backend_pybinding.py": 2,
    "runtime/test/test_runtime.py": 5,
    "runtime/test/test_runtime_etdump_gen.py": 2,
    "runtime/test/test_runtime_xnnpack.py": 7,
    "exir/emit/test/test_emit.py": 69,
    "devtools/inspector/tests/inspector_test.py": 78,
    "devtools/bundled_program/test/test_bundle_data.py": 6,
    "devtools/bundled_program/test/test_end2end.py": 1,
}
"""Files of the wheel that run programs, and the number of passing tests; the others skip
themselves, because they need CUDA or packages that are not installed."""


def package() -> Path:
    """Return the folder of the official package."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations, "executorch is not installed"
    return Path(spec.submodule_search_locations[0])


def files(names: list[str]) -> list[Path]:
    """Return the files of some names: operators of XNNPACK, or paths inside the package."""
    operators = package() / "backends" / "xnnpack" / "test" / "ops"
    if names == ["runtime"]:
        names = list(RUNTIME)
    items = [package() / name if "/" in name else operators / name for name in names]
    return items or [operators]


def command(names: list[str]) -> list[str]:
    """Return the pytest command for some of the official files, or for all operators."""
    chosen = [str(path) for path in files(names)]
    options = ["-q", "-p", "official_swap", "-p", "no:cacheprovider", "--import-mode=importlib"]
    return [sys.executable, "-m", "pytest", *options, f"--rootdir={package()}", *chosen]


def environment() -> dict[str, str]:
    """Return the environment of this process, with the plugin and the in-tree build on the path."""
    built = [str(ROOT)] if IN_PLACE else []
    paths = [str(HERE), *built, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    done = subprocess.run(command(sys.argv[1:]), env=environment(), cwd=HERE)
    sys.exit(done.returncode)
