"""Patches of copies of rows that are apart. Part of `patches.py`."""

from __future__ import annotations

from get_xnnpack.patch import Patch

TASK = 16384
"""Bytes that one task copies at least."""

COPIES = (
    # With threads, each row was a task, and each row of one number, as in rotary embeddings, a call
    # of memcpy: 72 copies of 384 KB took 7.8 ms at two threads, 3.9 at one; now 0.7 and 1.2.
    Patch(
        "src/operators/unary-elementwise-nc.c",
        "compute[0].tile[0] = (num_threads == 1) ? batch_size : 1;\n",
        "compute[0].tile[0] = (num_threads == 1) ? batch_size :\n"
        f"      1 + {TASK} / (channels * sizeof(float));\n",
        2,
    ),
    Patch(
        "src/operator-run.c",
        '#include "xnnpack/quantization.h"\n',
        '#include "xnnpack/quantization.h"\n#include "xnnpack/vunary.h"\n',
    ),
    Patch(
        "src/operator-run.c",
        "  void* y = (void*) ((uintptr_t) context->y + y_stride * batch_index);\n"
        "  do {\n"
        "    context->ukernel(context->n, x, y, &context->params);\n",
        "  void* y = (void*) ((uintptr_t) context->y + y_stride * batch_index);\n"
        "  if (context->n == sizeof(uint32_t) &&\n"
        "      context->ukernel == (xnn_vunary_ukernel_fn) xnn_xx_copy_ukernel__scalar_memcpy) {\n"
        "    for (; batch_range != 0; batch_range--) {\n"
        "      memcpy(y, x, sizeof(uint32_t));\n"
        "      x = (const void*) ((uintptr_t) x + x_stride);\n"
        "      y = (void*) ((uintptr_t) y + y_stride);\n"
        "    }\n"
        "    return;\n"
        "  }\n"
        "  do {\n"
        "    context->ukernel(context->n, x, y, &context->params);\n",
    ),
)
