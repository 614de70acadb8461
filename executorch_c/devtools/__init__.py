"""Tools for those who want to know what a program does: where it differs, what it takes, its parts.

Torch is imported only by what compares with a PyTorch model, when it is called.
"""

from executorch_c.devtools.budget import ErrorBudget, error_budget
from executorch_c.devtools.compare import compare_kernels, compare_programs
from executorch_c.devtools.dump import dump
from executorch_c.devtools.etdump import write as write_etdump
from executorch_c.devtools.explain import explain
from executorch_c.devtools.graph import Graph, graph
from executorch_c.devtools.memory import MemoryPlan, memory_plan
from executorch_c.devtools.watch import NonFiniteReport, find_nonfinite

__all__ = [
    "ErrorBudget",
    "Graph",
    "MemoryPlan",
    "NonFiniteReport",
    "compare_kernels",
    "compare_programs",
    "dump",
    "error_budget",
    "explain",
    "find_nonfinite",
    "graph",
    "memory_plan",
    "write_etdump",
]
