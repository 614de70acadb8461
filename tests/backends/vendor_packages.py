"""Stand-ins for the packages of vendors' SDKs, which are not to be had, as far as flows ask them.

The flows `mtk` and `neutron` import them, and run the vendor's quantizer and passes, which are part
of executorch. MediaTek's are asked nothing. NXP's are asked whether the target exists, and for two
of its properties; `NeutronTargetSpec` refuses any other values. All else raises AssertionError.
"""

import importlib.machinery
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from executorch_c._extras import is_installed


class Package(ModuleType):
    """A module that has nothing but what it is given."""

    def __init__(self, name: str, **contents: Any) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []
        vars(self).update(contents)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"{self.__name__}.{name} is asked for")


def neutron_target(name: str) -> SimpleNamespace:
    """Return a target that NeutronTargetSpec accepts: a microcontroller's NPU of version N3."""
    return SimpleNamespace(name=name, subsystem=False, hwVersion=2)


def packages() -> dict[str, Package]:
    """Return the stand-ins by the names of their modules."""
    converter = Package("eiq_neutron_sdk.neutron_converter", getNeutronTarget=neutron_target)
    library = Package("eiq_neutron_sdk.neutron_library_utils", isNeutronTarget=bool)
    importer = Package("mtk_converter.python.converters.pytorch.importer_v2")
    nodes = {importer.__name__: importer, converter.__name__: converter, library.__name__: library}
    nodes["eiq_neutron_sdk"] = Package(
        "eiq_neutron_sdk", neutron_converter=converter, neutron_library_utils=library
    )
    nodes["mtk_neuron"] = Package("mtk_neuron")
    child, path = importer, importer.__name__
    while "." in path:
        path, _, name = path.rpartition(".")
        child = nodes[path] = Package(path, **{name: child})
    return nodes


@contextmanager
def installed() -> Iterator[None]:
    """Have the stand-ins imported in place of packages that are not installed."""
    nodes = packages().items()
    added = {name: node for name, node in nodes if not is_installed(name.partition(".")[0])}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]
