"""Configurations of quantisers as code: modules that stay in float.

The code that a report prints is the code that makes the quantiser of its program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from executorch_c._render import text as _text
from executorch_c.check.flows import FLOWS

XNNPACK = """\
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer

config = xnnpack_quantizer.get_symmetric_quantization_config({options})
quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
"""
BY_FILTER = """
IN_FLOAT = {{
{names}
}}


def is_quantized(node):
    \"\"\"Return False for operators of the modules in IN_FLOAT.\"\"\"
    modules = [*(node.meta.get("nn_module_stack") or {{}}).values()]
    return not modules or modules[-1][0].partition("@")[0] not in IN_FLOAT


quantizer.set_filter_function(is_quantized)
"""


@dataclass(frozen=True)
class Configuration:
    """The code that makes a flow's quantiser."""

    code: str
    """Code without modules in float."""
    in_float: str
    """Code that keeps `names` in float."""

    def text(self, names: Iterable[str]) -> str:
        """Return the code with modules in float, by their names."""
        lines = "\n".join(f"    {json.dumps(name)}," for name in names)
        return self.code + (self.in_float.format(names=lines) if lines else "")


def _by_filter(options: str) -> Configuration:
    return Configuration(XNNPACK.format(options=options), BY_FILTER)


CONFIGURATIONS: Final[dict[str, Configuration]] = {
    "xnnpack-int8": _by_filter("is_per_channel=True"),
    "xnnpack-dynamic": _by_filter("is_per_channel=True, is_dynamic=True"),
    "vulkan-int8": _by_filter("is_per_channel=True"),
}
"""Configurations by flow."""


def configuration_of(flow: str) -> Configuration:
    """Return the configuration of a flow's quantiser. Raises ValueError for a flow without one."""
    if flow not in FLOWS:
        raise ValueError(f"`flow` is {_text.unknown(flow, CONFIGURATIONS)}")
    if FLOWS[flow].quantizer is None:
        raise ValueError(f"flow '{flow}' does not quantise; flows: {', '.join(CONFIGURATIONS)}")
    if flow not in CONFIGURATIONS:
        raise ValueError(
            f"the quantizer of flow '{flow}' has no setting for modules that stay in float; flows: "
            f"{', '.join(CONFIGURATIONS)}"
        )
    return CONFIGURATIONS[flow]


def quantizer_of(code: str) -> Any:
    """Return the quantiser that the code of a configuration makes."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  it is the code of this module
    return names["quantizer"]
