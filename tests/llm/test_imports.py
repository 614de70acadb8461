"""Imports of `executorch_c.llm`: modules are loaded at the first use of their names."""

from __future__ import annotations

import subprocess
import sys

import executorch_c.llm


def loaded_by(statement: str) -> set[str]:
    """Return the modules of NumPy and this package that a new process has after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name for name in run.stdout.split() if name.split(".")[0] in ("numpy", "executorch_c")}


def test_the_package_loads_no_module_of_its_own() -> None:
    assert loaded_by("import executorch_c.llm") == {"executorch_c", "executorch_c.llm"}


def test_a_runner_needs_no_checks() -> None:
    loaded = loaded_by("from executorch_c.llm import TextRunner")
    assert "executorch_c.llm.runner" in loaded
    assert not loaded & {f"executorch_c.llm.{name}" for name in ("check", "layer_costs", "losses")}


def test_every_public_name_has_a_module() -> None:
    for name in executorch_c.llm.__all__:
        assert getattr(executorch_c.llm, name).__module__.startswith("executorch_c.llm."), name
