"""Imports of `executorch_c.llm`: modules are loaded at the first use of their names."""

from collections.abc import Callable
from pathlib import Path

import pytest

import executorch_c.llm
from tests import process

Loaded = Callable[[str], "set[str]"]


@pytest.fixture
def loaded_by(tmp_path: Path) -> Loaded:
    """Return a function: the modules of NumPy and this package that a statement loads.

    Its processes start in an empty folder: a checkout's sources would hide the installed package.
    """

    def loaded(statement: str) -> set[str]:
        code = f"import sys\n{statement}\nprint(*sys.modules)"
        run = process.python("-c", code, cwd=tmp_path)
        names = run.stdout.split()
        return {name for name in names if name.split(".")[0] in ("numpy", "executorch_c")}

    return loaded


def test_the_package_loads_no_module_of_its_own(loaded_by: Loaded) -> None:
    assert loaded_by("import executorch_c.llm") == {"executorch_c", "executorch_c.llm"}


@pytest.mark.parametrize("name", ["devtools", "llm", "testing"])
def test_modules_of_the_package_are_loaded_at_their_first_use(name: str, loaded_by: Loaded) -> None:
    assert loaded_by("import executorch_c; dir(executorch_c)") == {"executorch_c"}
    assert f"executorch_c.{name}" in loaded_by(f"import executorch_c; executorch_c.{name}")


def test_a_runner_needs_no_checks(loaded_by: Loaded) -> None:
    loaded = loaded_by("from executorch_c.llm import TextRunner")
    assert "executorch_c.llm.runner" in loaded
    assert not loaded & {f"executorch_c.llm.{name}" for name in ("check", "layer_costs", "losses")}


def test_every_public_name_has_a_module() -> None:
    for name in executorch_c.llm.__all__:
        public = getattr(executorch_c.llm, name)
        is_here = public.__module__.startswith("executorch_c.llm.")
        assert is_here or public is getattr(executorch_c, name), name
    assert {*executorch_c.llm.__all__} == {*executorch_c.llm._HOMES} <= {*dir(executorch_c.llm)}
    with pytest.raises(AttributeError, match="no_such_name"):
        executorch_c.llm.no_such_name  # noqa: B018
