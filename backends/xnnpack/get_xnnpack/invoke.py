"""Patches of the calls of runtimes without threads. Part of `patches.py`."""

from __future__ import annotations

from get_xnnpack.patch import FOLDER, Patch

DECLARATIONS = (
    "extern XNN_INTERNAL bool ecx_invoke(xnn_runtime_t, enum xnn_status*); // operator-run.c\n"
    "extern XNN_INTERNAL void ecx_drop_steps(xnn_runtime_t);\n"
)
"""The functions of `invoke.h`."""
SIGNATURE = "enum xnn_status xnn_run_operator_with_index(\n"

INVOKE = (
    # Steps of a small delegate took less time than finding them: a delegated LSTM.
    Patch(
        "src/xnnpack/subgraph.h",
        "  bool memory_planned;\n",
        "  bool memory_planned;\n  struct ecx_steps* ecx_steps; // NULL: not listed yet\n",
    ),
    Patch(
        "src/operator-run.c",
        '#include "xnnpack/quantization.h"\n',
        '#include "xnnpack/quantization.h"\n#include "xnnpack/allocator.h"\n'
        '#include "xnnpack/prefetch.h"\n#include "xnnpack/subgraph.h"\n' + DECLARATIONS,
    ),
    Patch(
        "src/operator-run.c", SIGNATURE, "\n" + (FOLDER / "invoke.h").read_text() + "\n" + SIGNATURE
    ),
    Patch(
        "src/runtime.c", '#include "pthreadpool.h"\n', '#include "pthreadpool.h"\n\n' + DECLARATIONS
    ),
    Patch(
        "src/runtime.c",
        "    runtime->start_ts = xnn_read_timer();\n  }\n",
        "    runtime->start_ts = xnn_read_timer();\n  }\n"
        "  enum xnn_status ecx_status;\n"
        "  if (runtime->threadpool == NULL && !runtime->profiling &&\n"
        "      ecx_invoke(runtime, &ecx_status))\n"
        "    return ecx_status;\n",
    ),
    Patch(
        "src/runtime.c",
        "{\n  bool reallocation_required = false;\n",
        "{\n  ecx_drop_steps(runtime);\n  bool reallocation_required = false;\n",
    ),
    Patch(
        "src/runtime.c",
        "  if (runtime != NULL) {\n    #ifdef XNN_SLINKY_AVAILABLE\n    // slinky_destroy",
        "  if (runtime != NULL) {\n    ecx_drop_steps(runtime);\n"
        "    #ifdef XNN_SLINKY_AVAILABLE\n    // slinky_destroy",
    ),
)
