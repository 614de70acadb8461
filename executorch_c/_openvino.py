"""The location of OpenVINO's C library, for the extension `_backend_openvino`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from executorch_c import _log


def library() -> str:
    """Return the path of libopenvino_c: $OPENVINO_LIB_PATH, as in the official runtime, or that of
    the package openvino, which is not imported; "" if neither exists."""
    named = os.environ.get("OPENVINO_LIB_PATH")
    if named:
        return named
    try:
        spec = find_spec("openvino")
    except (ImportError, ValueError):  # a module openvino of somebody's without a spec
        return ""
    for folder in (spec and spec.submodule_search_locations) or ():
        paths = sorted(Path(folder, "libs").glob("libopenvino_c.so*"))
        if paths:
            _log.debug("OpenVINO is %s", paths[-1])
            return str(paths[-1])
    return ""
