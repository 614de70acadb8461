"""The stubs match the extension module: mypy.stubtest, and no Any."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

import executorch_c
from executorch_c import _core
from tests import kept, process

PACKAGE = Path(executorch_c.__file__).parent
INSTALLED = PACKAGE.parent.name == "site-packages"
CONFIG = Path(__file__).parents[2] / "pyproject.toml"


STUBTEST = """
[mypy]
ignore_missing_imports = true
[mypy-torch.*,torchao.*,transformers.*,executorch.*]
follow_imports = skip
"""


def check(folder: Path, *command: str) -> None:
    """Run a module of mypy outside the source tree, on the package under test. An editable package
    is not in site-packages, where mypy ignores errors: it is checked, too."""
    pytest.importorskip("mypy")
    env = os.environ if INSTALLED else {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    process.python("-m", *command, cwd=folder, env=env)


def test_stubtest(tmp_path: Path) -> None:
    """The extension needs none of the modules that are skipped: mypy reads torch for 20 seconds."""
    (tmp_path / "stubtest.ini").write_text(STUBTEST)
    config = "--mypy-config-file", "stubtest.ini"
    check(tmp_path, "mypy.stubtest", *config, "executorch_c._core")


def test_the_package_and_its_users_are_strictly_typed(tmp_path: Path) -> None:
    """In one run, whose cache stays: most of the time goes to the stubs of NumPy and torch."""
    (tmp_path / "snippet.py").write_text(SNIPPET)
    options = "--strict", "--config-file", CONFIG, "--cache-dir", kept.folder() / "mypy"
    check(tmp_path, "mypy", *map(str, options), "-p", "executorch_c", "-m", "snippet")


TYPED = ["__init__.py", "_core.pyi", "_types.py", "_render/html.py", "trace.py"]


@pytest.mark.parametrize("name", TYPED)
def test_no_any(name: str) -> None:
    text = (PACKAGE / name).read_text()
    for allowed in ("TYPE_CHECKING, Any,", '"Array | Any"', "these (the Any)"):  # of an output
        text = text.replace(allowed, "", 1) if name == "_types.py" else text
    assert not re.search(r"\bAny\b", text)
    assert (PACKAGE / "py.typed").exists()


SNIPPET = """
import numpy as np
from executorch_c import load

method = load("model.pte").load_method("forward")
[y] = method.execute([np.zeros(3)])
z = method(np.zeros(3))
print(y.shape, y.dtype, y + 1, z.shape)
for one in method.run({"x": np.zeros(3)}):
    print(one.shape)
"""


def documented(path: Path) -> dict[str, str]:
    """Return the first lines of the docstrings in a stub, by name."""
    docstrings: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else []
        for one in (node, *inner):
            if isinstance(one, (ast.ClassDef, ast.FunctionDef)) and not one.name.startswith("_"):
                prefix = f"{node.name}." if one is not node else ""  # type: ignore[attr-defined]
                docstrings.setdefault(prefix + one.name, ast.get_docstring(one) or "")
    return docstrings


def test_stubs_have_the_docstrings() -> None:
    for name, text in documented(PACKAGE / "_core.pyi").items():
        real: object = _core
        for part in name.split("."):
            real = getattr(real, part)
        if issubclass(real, BaseException) if isinstance(real, type) else False:
            continue
        first = " ".join((real.__doc__ or "").strip().partition("\n\n")[0].split())
        assert " ".join(text.split()) == first and first, name
