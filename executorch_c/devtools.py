"""Tools that show what a program does: where it differs, what it takes, what is in it.

Torch is imported only by what compares with a PyTorch model, when it is called.
"""

from executorch_c.debug.layers import explain
from executorch_c.debug.nonfinite import NonFiniteReport, find_nonfinite
from executorch_c.debug.programs import compare_kernels, compare_programs
from executorch_c.debug.quantization import ErrorBudget, error_budget
from executorch_c.inspect.dump import dump
from executorch_c.inspect.etdump import write as write_etdump
from executorch_c.inspect.graph import Graph, graph
from executorch_c.inspect.memory import MemoryPlan, memory_plan

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
