"""A pytest plugin that replaces the official portable_lib for all later imports."""

import sys

import executorch.extension.pybindings as package
import executorch.kernels.quantized  # noqa: F401  out-variants that test_pybindings exports with

import executorch_c.portable_lib as ours

sys.modules["executorch.extension.pybindings.portable_lib"] = ours
package.portable_lib = ours
