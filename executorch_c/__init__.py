"""ExecuTorch programs on NumPy arrays."""

from __future__ import annotations

from executorch_c import _core
from executorch_c._core import operators, register_backend

__version__ = "0.1.0"
__all__ = ["operators", "register_backend"]
