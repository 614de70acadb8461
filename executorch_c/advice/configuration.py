"""Configurations of quantisers as code: modules that stay in float.

The code that a report prints is the code that makes the quantiser of its program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from executorch_c._render import text as _text
from executorch_c.check.flows import FLOWS, arm_rows
from executorch_c.check.vendor_flows import without_download

FILTER = """
IN_FLOAT = {{
{names}
}}


def is_quantized(node):
    \"\"\"Return False for operators of the modules in IN_FLOAT.\"\"\"
    modules = [*(node.meta.get("nn_module_stack") or {{}}).values()]
    return not modules or modules[-1][0].partition("@")[0] not in IN_FLOAT


"""


@dataclass(frozen=True)
class Configuration:
    """The code that makes a flow's quantiser: imports, then one of two ways."""

    imports: str
    quantized: str
    """Code without modules in float."""
    in_float: str
    """Code in which operators stay in float of which `is_quantized` is false."""
    context: Callable[[], AbstractContextManager[None]] = nullcontext
    """The code runs in it here."""

    def text(self, names: Iterable[str]) -> str:
        """Return the code with modules in float, by their names."""
        lines = "\n".join(f"    {json.dumps(name)}," for name in names)
        if not lines:
            return f"{self.imports}\n{self.quantized}"
        return self.imports + FILTER.format(names=lines) + self.in_float

    def quantizer(self, names: Iterable[str]) -> Any:
        """Return the quantiser that the code makes with modules in float."""
        values: dict[str, Any] = {}
        with self.context():
            exec(self.text(names), values)  # noqa: S102  it is the code of this module
        return values["quantizer"]


# ---- XNNPACK -----------------------------------------------------------------------------------


def _by_filter(options: str) -> Configuration:
    """Return the configuration of XNNPACK's quantiser, which takes a filter."""
    code = (
        f"config = xnnpack_quantizer.get_symmetric_quantization_config({options})\n"
        "quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)\n"
    )
    return Configuration(
        "from executorch.backends.xnnpack.quantizer import xnnpack_quantizer\n",
        code,
        f"{code}quantizer.set_filter_function(is_quantized)\n",
    )


# ---- Arm ---------------------------------------------------------------------------------------

NODE_FINDER = """\
class InFloat(arm_quantizer.NodeFinder):
    \"\"\"Finds operators of the modules in IN_FLOAT.\"\"\"

    def find_nodes(self, model):
        return (node for node in model.graph.nodes if not is_quantized(node))


"""


def _arm() -> Iterator[tuple[str, Configuration]]:
    """Yield the flows of Arm's devices: modules by names hold those inside, a node finder does
    not."""
    for flow, spec, config, *_ in arm_rows():
        code = (
            f"config = arm_quantizer.{config}()\n"
            f'spec = TosaCompileSpec("{spec}")\n'
            "quantizer = arm_quantizer.TOSAQuantizer(spec).set_global(config)\n"
        )
        yield (
            flow,
            Configuration(
                "from executorch.backends.arm.quantizer import arm_quantizer\n"
                "from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec\n",
                code,
                f"{NODE_FINDER}{code}quantizer.set_node_finder(None, InFloat())\n",
            ),
        )


CORTEX_M = Configuration(
    "import executorch.backends.cortex_m.passes.cortex_m_pass_manager  # imported in a circle\n"
    "from executorch.backends.arm.quantizer import arm_quantizer\n"
    "from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer\n",
    "quantizer = CortexMQuantizer()\n",
    f"{NODE_FINDER}quantizer = CortexMQuantizer()\n"
    "first = quantizer.quantizers[0]\n"
    "in_float = type(first)(None, InFloat(), first.pattern_matcher)\n"
    "quantizer.quantizers.insert(0, in_float)\n",
)

# ---- quantisers that take names of nodes ---------------------------------------------------------

SUBCLASS = """\
class PartlyFloat({name}):
    \"\"\"Leaves out operators of the modules in IN_FLOAT.\"\"\"

    def annotate(self, model):
        nodes = model.graph.nodes
        self.{setting}[node.name for node in nodes if not is_quantized(node)]{end}
        return super().annotate(model)


"""


def _by_nodes(
    imports: str, name: str, setting: str, end: str, rest: str = "", **fields: Any
) -> Configuration:
    """Return the configuration of a quantiser that is told nodes, which the graph names."""
    subclass = SUBCLASS.format(name=name, setting=setting, end=end)
    return Configuration(
        imports,
        f"quantizer = {name}()\n{rest}",
        f"{subclass}quantizer = PartlyFloat()\n{rest}",
        **fields,
    )


def _qnn(dtype: str) -> Configuration:
    return _by_nodes(
        "from executorch.backends.qualcomm.quantizer import quantizer as qnn\n",
        "qnn.QnnQuantizer",
        "add_discard_nodes(",
        ")",
        f"dtype = qnn.QuantDtype.{dtype}\n"
        "quantizer.set_default_quant_config(dtype, is_conv_per_channel=True)\n",
        context=without_download,
    )


CONFIGURATIONS: Final[dict[str, Configuration]] = {
    "xnnpack-int8": _by_filter("is_per_channel=True"),
    "xnnpack-dynamic": _by_filter("is_per_channel=True, is_dynamic=True"),
    "vulkan-int8": _by_filter("is_per_channel=True"),
    "openvino-int8": _by_nodes(
        "from executorch.backends.openvino import OpenVINOQuantizer\n",
        "OpenVINOQuantizer",
        "set_ignored_scope(names=",
        ", validate=False)",
    ),
    **dict(_arm()),
    "cortex-m": CORTEX_M,
    "qnn": _qnn("use_8a8w"),
    "qnn-a16w8": _qnn("use_16a8w"),
    "qnn-a16w4": _qnn("use_16a4w"),
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
            f"`advise` has no configuration with modules in float for flow '{flow}'; flows: "
            f"{', '.join(CONFIGURATIONS)}"
        )
    return CONFIGURATIONS[flow]
