"""Benchmarks: executorch_c compared with the official runtime, in the same run. See README.md."""

from tests import IN_PLACE, ROOT

__all__ = ["IN_PLACE", "ROOT"]
