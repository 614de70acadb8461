"""Tools for one or two programs: divergence, quantisation error, NaN, contents, memory; recordings
of devices, and who is at fault where one computes something else.

Only functions that compare with a PyTorch model import torch, when they are called.
"""

from __future__ import annotations

from executorch_c.advice.report import Advice
from executorch_c.advice.run import advise
from executorch_c.bench.report import BenchReport
from executorch_c.bench.turns import bench
from executorch_c.blame.device import DeviceValues
from executorch_c.blame.locating import Departure, locate
from executorch_c.blame.probes import Probes, Round, next_probe, read_probes, write_probes
from executorch_c.blame.report import BlameReport
from executorch_c.blame.run import blame
from executorch_c.cut.report import Cut
from executorch_c.cut.run import cut
from executorch_c.debug.layers import explain
from executorch_c.debug.nonfinite import NonFiniteReport, check_nan
from executorch_c.debug.programs import compare_kernels, compare_programs
from executorch_c.debug.quantization import QuantizationReport, quantization_error
from executorch_c.debug.report import ErrorReport, NodeError
from executorch_c.inspect.diagram.changes import GraphChanges, compare_graphs
from executorch_c.inspect.diagram.draw import Graph, graph
from executorch_c.inspect.etdump import write as write_etdump
from executorch_c.inspect.etdump_report import ETDump, read_etdump
from executorch_c.inspect.etrecord import ETRecord, read_etrecord
from executorch_c.inspect.listing import Dump, dump
from executorch_c.inspect.memory import MemoryPlan, memory_plan
from executorch_c.report import Report

__all__ = [
    "Advice",
    "BenchReport",
    "BlameReport",
    "Cut",
    "Departure",
    "DeviceValues",
    "Dump",
    "ETDump",
    "ETRecord",
    "ErrorReport",
    "Graph",
    "GraphChanges",
    "MemoryPlan",
    "NodeError",
    "NonFiniteReport",
    "Probes",
    "QuantizationReport",
    "Report",
    "advise",
    "bench",
    "Round",
    "blame",
    "check_nan",
    "compare_graphs",
    "compare_kernels",
    "compare_programs",
    "cut",
    "dump",
    "explain",
    "graph",
    "locate",
    "memory_plan",
    "next_probe",
    "quantization_error",
    "read_etdump",
    "read_etrecord",
    "read_probes",
    "write_etdump",
    "write_probes",
]
