"""Optional packages: the error for a missing package names its extra."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas

EXTRAS = {
    "coreai_torch": "coreai-flow",
    "executorch": "check",
    "flatbuffers": "devtools",
    "jinja2": "llm",
    "matplotlib": "view",
    "ml_dtypes": "bfloat16",
    "model_converter": "vgf",
    "nncf": "openvino-flow",
    "openvino": "openvino",
    "PIL": "images",
    "pandas": "view",
    "rich": "view",
    "sentencepiece": "llm",
    "tiktoken": "llm",
    "tokenizers": "llm",
    "tomli": "check",
    "torch": "check",
    "tosa_serializer": "arm",
}
"""Extra in pyproject.toml of each package."""

SDKS = {
    "eiq_neutron_sdk": "NXP's eIQ Neutron SDK (examples/nxp/setup.sh of ExecuTorch)",
    "mtk_converter": "MediaTek's NeuroPilot Express SDK",
    "mtk_neuron": "MediaTek's NeuroPilot Express SDK",
}
"""Products of vendors with the other packages."""


def is_installed(name: str) -> bool:
    """Return True if a package can be imported."""
    if name in sys.modules:
        return sys.modules[name] is not None
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # the package around it, or one without a spec
        return False


def folder_of(name: str) -> str:
    """Return the path of the folder that a package is imported from. Raises ImportError."""
    spec = importlib.util.find_spec(name) if is_installed(name) else None
    if spec is None or spec.origin is None:
        raise missing_error("a process with limits", name)
    package = os.path.dirname(os.path.abspath(spec.origin))
    return os.path.dirname(package) if spec.submodule_search_locations else package


def require(what: str, *packages: str) -> None:
    """Raise ImportError if a package is not installed: "check_model needs torch: ..."."""
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        raise missing_error(what, *missing)


def missing_error(what: str, *packages: str) -> ImportError:
    """Return an ImportError with the install command, or with the product that has the packages."""
    many = "packages" if len(packages) > 1 else "package"
    needs = f"{what} needs the {many} {' and '.join(packages)}"
    if packages[0] in SDKS:
        return ImportError(f"{needs} of {SDKS[packages[0]]}", name=packages[0])
    return ImportError(f"{needs}: {_command(packages)}", name=packages[0])


def _command(packages: Sequence[str]) -> str:
    extras = ",".join(dict.fromkeys(EXTRAS[name] for name in packages))
    return f"pip install 'executorch_c[{extras}]'"


def install_command(error: ImportError) -> str:
    """Return the command that installs the package that an import did not find; an empty text
    for a package of no extra, or if the error says it."""
    package = (error.name or "").partition(".")[0]
    command = _command([package]) if package in EXTRAS else ""
    return "" if command in str(error) else command


def load(what: str, name: str) -> ModuleType:
    """Return a module. Raises the ImportError of `missing_error`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing_error(what, name.partition(".")[0]) from error


def data_frame(columns: Mapping[str, Sequence[object]]) -> pandas.DataFrame:
    """Return a pandas.DataFrame of columns."""
    return load("a data frame", "pandas").DataFrame(columns)
