"""Patches of the built sources, each with the fault that it corrects.

Tests: tests/backends/test_xnnpack_shapes.py, _windows.py, _memory.py; load: bench_busy.py.
"""

from __future__ import annotations

from pathlib import Path

from get_xnnpack.copies import COPIES
from get_xnnpack.decoding import DECODING
from get_xnnpack.integers import PRODUCTS, STEPS, TABLES
from get_xnnpack.invoke import INVOKE
from get_xnnpack.kernels import DEPTHWISE, RSQRT, TANH
from get_xnnpack.log import XnnpackError
from get_xnnpack.packing import DEFERRED, PACKING, PARTS, SCALES
from get_xnnpack.patch import FOLDER, Patch



ROWS = (
    # Kernels of 14 and 16 rows read 14 and 16 entries; after 2 rows, 10 copies are too few, and
    # the last row is wrong. XNNPACK has the same fix in 2025. The second line is for the probe.
    Patch(
        "include/xnnpack.h",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 10\n",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 15\n#define EXECUTORCH_C_CORRECTIONS 1\n",
    ),
)

TILES = (
    # Weights larger than a cache: resnet18 is 5 to 8 % faster, no model is slower (see tiles.h).
    Patch(
        "src/operator-run.c",
        '#include "pthreadpool.h"\n',
        '#include "pthreadpool.h"\n\n' + (FOLDER / "tiles.h").read_text()
        + (FOLDER / "alone.h").read_text(),
    ),
    # Threads for steps of microseconds: a token of a small Llama had 300 of them.
    Patch(
        "src/operator-run.c",
        "  for (size_t i = 0; i < XNN_MAX_COMPUTE_INVOCATIONS; i++) {\n"
        "    switch (op->compute[i].type) {\n",
        "  const pthreadpool_t ecx_given = threadpool;\n"
        "  for (size_t i = 0; i < XNN_MAX_COMPUTE_INVOCATIONS; i++) {\n"
        "    threadpool = ecx_pool_of(\n"
        "        &op->compute[i],\n"
        "        (const void*) ((uintptr_t) &op->context + op->compute[i].context_offset),\n"
        "        ecx_given);\n"
        "    switch (op->compute[i].type) {\n",
    ),
    *(
        Patch(
            "src/operator-run.c",
            f"        pthreadpool_parallelize_{kind}(\n",
            f"        ecx_parallelize_{kind}(\n",
        )
        for kind in ("2d_tile_2d", "3d_tile_2d")
    ),
)

SHAPES = (
    # XNNPACK replans memory only if a node's result is larger than ever before. But workspaces of
    # nodes (global pooling of float16 and bytes) may grow alone. And a result that shares the
    # memory of an input, because both had the same size, may be larger now.
    Patch(
        "src/runtime.c",
        "  if (reallocation_required || !runtime->memory_planned) {\n"
        "    runtime->memory_planned = true;\n"
        "    return xnn_plan_memory(runtime);\n"
        "  }\n"
        "  return xnn_status_success;\n",
        "  (void) reallocation_required;\n"
        "  const enum xnn_status planned = xnn_plan_memory(runtime);\n"
        "  runtime->memory_planned = planned == xnn_status_success;\n"
        "  return planned;\n",
    ),
    # Parameters of dynamic quantisation: more images with fewer elements need more of them.
    Patch(
        "src/subgraph/reshape-helpers.c",
        "  const size_t new_size = xnn_tensor_get_size(output);\n"
        "  if (new_size > output->size || opdata->workspace_size > old_workspace_size) {\n"
        "    output->size = new_size;\n"
        "    if (output->datatype == xnn_datatype_qdint8) {\n",
        "  if (output->datatype == xnn_datatype_qdint8) {\n"
        "    output->quantization.dynamic_params_size ="
        " xnn_tensor_get_dynamic_quant_param_size(output);\n"
        "  }\n"
        "  const size_t new_size = xnn_tensor_get_size(output);\n"
        "  if (new_size > output->size || opdata->workspace_size > old_workspace_size) {\n"
        "    output->size = new_size;\n"
        "    if (output->datatype == xnn_datatype_qdint8) {\n",
    ),
    # Indices of a pooling keep their declared shape.
    Patch(
        "src/subgraph/argmax-pooling-2d.c",
        "  output_value->shape.num_dims = 4;\n",
        "  output_value->shape.num_dims = 4;\n"
        "  struct xnn_value* index_value = values + opdata->outputs[1];\n"
        "  index_value->shape = output_value->shape;\n"
        "  index_value->size = xnn_tensor_get_size(index_value);\n",
    ),
    # Addresses of an image's elements also depend on the number of its channels.
    Patch(
        "src/operators/max-pooling-nhwc.c",
        "  if (input_height != max_pooling_op->last_input_height ||\n",
        "  if (channels != max_pooling_op->last_input_channels ||\n"
        "      input_height != max_pooling_op->last_input_height ||\n",
    ),
    Patch(
        "src/operators/max-pooling-nhwc.c",
        "    max_pooling_op->last_input_height = input_height;\n",
        "    max_pooling_op->last_input_channels = channels;\n"
        "    max_pooling_op->last_input_height = input_height;\n",
    ),
    Patch(
        "src/operators/resize-bilinear-nhwc.c",
        "    if (input_height != resize_op->last_input_height ||\n",
        "    if (channels != resize_op->last_input_channels ||\n"
        "        input_height != resize_op->last_input_height ||\n",
    ),
    Patch(
        "src/operators/resize-bilinear-nhwc.c",
        "      resize_op->last_input_height = input_height;\n",
        "      resize_op->last_input_channels = channels;\n"
        "      resize_op->last_input_height = input_height;\n",
    ),
)

ZERO_BUFFERS = """\
// Allocates a batch's paddings, one per image's zero point, in one block after their addresses.
static bool ecx_zero_buffers(xnn_operator_t op, size_t batch_size) {
  const size_t addresses = round_up_po2(batch_size * sizeof(void*), XNN_ALLOCATION_ALIGNMENT);
  const size_t each = round_up_po2(op->zero_size, XNN_ALLOCATION_ALIGNMENT);
  if (batch_size == 0) return true;
  xnn_release_simd_memory(op->zero_buffers);
  op->zero_buffers = xnn_allocate_simd_memory(addresses + batch_size * each);
  if (op->zero_buffers == NULL) return false;
  op->zero_buffers[0] = op->zero_buffer;
  for (size_t i = 1; i < batch_size; i++)
    op->zero_buffers[i] = (void*) ((uintptr_t) op->zero_buffers + addresses + i * each);
  return true;
}

"""

PADDINGS = (
    # XNNPACK allocates one padding per image when height or width changes, frees one per current
    # image, and does not check allocations.
    Patch(
        "src/operators/convolution-nhwc.c",
        "  convolution_op->last_input_height = convolution_op->input_height;\n"
        "  convolution_op->last_input_width = convolution_op->input_width;\n"
        "  convolution_op->input_height = input_height;\n"
        "  convolution_op->input_width = input_width;\n"
        "  if (input_size_changed(convolution_op)) {\n"
        "    if (convolution_op->zero_buffers) {\n"
        "      for (size_t i = 1; i < batch_size; ++i) {\n"
        "        xnn_release_simd_memory(convolution_op->zero_buffers[i]);\n"
        "      }\n"
        "    }\n"
        "    convolution_op->zero_buffers ="
        " xnn_reallocate_memory(convolution_op->zero_buffers, batch_size * sizeof(void*));\n"
        "    convolution_op->zero_buffers[0] = convolution_op->zero_buffer;\n"
        "    for (size_t i = 1; i < batch_size; ++i) {\n"
        "      convolution_op->zero_buffers[i] ="
        " xnn_allocate_simd_memory(convolution_op->zero_size);\n"
        "    }\n"
        "  }\n",
        "  if (!ecx_zero_buffers(convolution_op, batch_size)) return xnn_status_out_of_memory;\n",
        times=2,
    ),
    Patch(
        "src/operators/convolution-nhwc.c",
        "static inline bool input_size_changed(",
        ZERO_BUFFERS + "static inline bool input_size_changed(",
    ),
    Patch(
        "src/operators/deconvolution-nhwc.c",
        "  if (deconvolution_op->zero_buffers) {\n"
        "    for (size_t i = 1; i < batch_size; ++i) {\n"
        "      xnn_release_simd_memory(deconvolution_op->zero_buffers[i]);\n"
        "    }\n"
        "  }\n"
        "\n"
        "  deconvolution_op->zero_buffers ="
        " xnn_reallocate_memory(deconvolution_op->zero_buffers, batch_size * sizeof(void*));\n"
        "  deconvolution_op->zero_buffers[0] = deconvolution_op->zero_buffer;\n"
        "  for (size_t i = 1; i < batch_size; ++i) {\n"
        "    deconvolution_op->zero_buffers[i] ="
        " xnn_allocate_simd_memory(deconvolution_op->zero_size);\n"
        "  }\n",
        "  if (!ecx_zero_buffers(deconvolution_op, batch_size)) return xnn_status_out_of_memory;\n",
    ),
    Patch(
        "src/operators/deconvolution-nhwc.c",
        "static enum xnn_status reshape_conv_path(\n",
        ZERO_BUFFERS + "static enum xnn_status reshape_conv_path(\n",
    ),
    Patch(
        "src/operator-utils.c",
        "  if (op->zero_buffers) {\n"
        "    for (size_t i = 1; i < op->batch_size; ++i) {\n"
        "      xnn_release_simd_memory(op->zero_buffers[i]);\n"
        "    }\n"
        "    xnn_release_memory(op->zero_buffers);\n"
        "  }\n",
        "  xnn_release_simd_memory(op->zero_buffers);\n",
    ),
)

WINDOWS = (
    # XNNPACK misclassifies rows of windows that reach into the padding at both ends. Rows inside
    # the bottom padding have addresses of rows of the image.
    Patch(
        "src/operators/average-pooling-nhwc.c",
        "  const size_t indirect_top_height ="
        " divide_round_up(average_pooling_op->padding_top, average_pooling_op->stride_height);\n"
        "  const size_t indirect_bot_height ="
        " divide_round_up(average_pooling_op->padding_bottom,"
        " average_pooling_op->stride_height);\n",
        "  size_t indirect_top_height = min(output_height,\n"
        "    divide_round_up(average_pooling_op->padding_top,"
        " average_pooling_op->stride_height));\n"
        "  size_t indirect_bot_height = min(output_height,\n"
        "    divide_round_up(average_pooling_op->padding_bottom,"
        " average_pooling_op->stride_height));\n"
        "  if (indirect_top_height + indirect_bot_height > output_height) {\n"
        "    indirect_top_height = output_height;\n"
        "    indirect_bot_height = 0;\n"
        "  }\n",
    ),
    # Strides larger than a result: some parts of the filter have 0 positions, not 2**64 / stride.
    Patch(
        "src/indirection.c",
        "divide_round_up(output_width - output_x_start, stride_width)",
        "divide_round_up(doz(output_width, output_x_start), stride_width)",
    ),
    Patch(
        "src/operators/deconvolution-nhwc.c",
        "divide_round_up(output_width - output_x_start, stride_width)",
        "divide_round_up(doz(output_width, output_x_start), stride_width)",
    ),
    Patch(
        "src/operators/deconvolution-nhwc.c",
        "divide_round_up(output_height - output_y_start, stride_height)",
        "divide_round_up(doz(output_height, output_y_start), stride_height)",
    ),
)

WEIGHTS = (
    # Some datatypes have no function to pack transposed weights.
    Patch(
        "src/operators/fully-connected-nc.c",
        "      if (flags & XNN_FLAG_TRANSPOSE_WEIGHTS) {\n        pack_gemm_gio_w(\n",
        "      if (flags & XNN_FLAG_TRANSPOSE_WEIGHTS) {\n"
        "        status = xnn_status_unsupported_parameter;\n"
        "        if (pack_gemm_gio_w == NULL) goto error;\n"
        "        pack_gemm_gio_w(\n",
    ),
)

FUSION = (
    # A clamp that joins another node writes its bounds into that node's paddings, if they are
    # greater than 0 or less: both are parameters in one union.
    Patch(
        "src/subgraph.c",
        "        producer->params.unary.clamp.min =\n"
        "            math_max_f32(producer->params.unary.clamp.min,\n"
        "                          consumer->params.unary.clamp.min);\n"
        "        producer->params.unary.clamp.max =\n"
        "            math_min_f32(producer->params.unary.clamp.max,\n"
        "                          consumer->params.unary.clamp.max);\n",
        "        if (is_clamp(producer)) {\n"
        "          producer->params.unary.clamp.min =\n"
        "              math_max_f32(producer->params.unary.clamp.min,\n"
        "                            consumer->params.unary.clamp.min);\n"
        "          producer->params.unary.clamp.max =\n"
        "              math_min_f32(producer->params.unary.clamp.max,\n"
        "                            consumer->params.unary.clamp.max);\n"
        "        }\n",
    ),
)

MEMORY = (
    # A plan itself needs memory. SIZE_MAX means that its allocation failed.
    Patch(
        "src/memory-planner.c",
        "#if XNN_ENABLE_MEMOPT\n  populate_value_lifecycle(runtime, tracker->usage);\n",
        "  if (tracker->usage == NULL) return;\n"
        "#if XNN_ENABLE_MEMOPT\n  populate_value_lifecycle(runtime, tracker->usage);\n",
    ),
    Patch(
        "src/memory-planner.c",
        "  size_t num_values_to_alloc = 0;\n",
        "  tracker->mem_arena_size = SIZE_MAX;\n"
        "  if (sorted_usage == NULL) return;\n"
        "  size_t num_values_to_alloc = 0;\n",
    ),
    Patch(
        "src/memory-planner.c",
        "      sizeof(struct memory_block) * num_values_to_alloc);\n",
        "      sizeof(struct memory_block) * (num_values_to_alloc + 1));\n"
        "  if (current_live_mem_blocks == NULL) {\n"
        "    xnn_release_memory(sorted_usage);\n"
        "    return;\n"
        "  }\n",
    ),
    Patch(
        "src/runtime.c",
        "  xnn_init_value_allocation_tracker(&mem_alloc_tracker, runtime);\n"
        "\n"
        "  size_t persistent_size = 0;\n",
        "  xnn_init_value_allocation_tracker(&mem_alloc_tracker, runtime);\n"
        "  if (mem_alloc_tracker.usage == NULL) return xnn_status_out_of_memory;\n"
        "\n"
        "  size_t persistent_size = 0;\n",
    ),
    Patch(
        "src/runtime.c",
        "  xnn_plan_value_allocation_tracker(&mem_alloc_tracker);\n",
        "  xnn_plan_value_allocation_tracker(&mem_alloc_tracker);\n"
        "  status = xnn_status_out_of_memory;\n"
        "  if (mem_alloc_tracker.mem_arena_size == SIZE_MAX) goto error;\n",
    ),
    # Growth copies the persistent part of a shared workspace: its old size.
    Patch(
        "src/runtime.c",
        "error:\n  xnn_release_value_allocation_tracker(&mem_alloc_tracker);\n",
        "error:\n"
        "  runtime->workspace->persistent_size = old_persistent_size;\n"
        "  xnn_release_value_allocation_tracker(&mem_alloc_tracker);\n",
    ),
    # No code relies on zeros there, and writing them takes a large part of the first call.
    Patch(
        "src/runtime.c",
        "    void* new_workspace_data = xnn_allocate_zero_simd_memory(mem_arena_size);\n",
        "    void* new_workspace_data = xnn_allocate_simd_memory(mem_arena_size);\n",
    ),
    # Freed before its successor is allocated, and again with the operator.
    Patch(
        "src/operators/average-pooling-nhwc.c",
        "    xnn_release_simd_memory(zero_buffer);\n",
        "    xnn_release_simd_memory(zero_buffer);\n    average_pooling_op->zero_buffer = NULL;\n",
    ),
)

PLAN = (
    # The planner looks for gaps after live blocks only, so that the values of a chain never share
    # memory: ResNet-18's workspace took 13 MB, now 4. An empty block at 0 makes the room before
    # the first live block a gap like the others.
    Patch(
        "src/memory-planner.c",
        "    size_t num_live_mem_blocks = 0;\n",
        "    size_t num_live_mem_blocks = 1;\n"
        "    current_live_mem_blocks[0] = (struct memory_block){.start = 0, .end = 0};\n",
    ),
)

NARROW = (
    # Convolutions and products with fewer outputs than the widest kernel has: on AVX-512, layers
    # of at most 16 channels computed 32, and transposed convolutions of less than 32 ran in SSE.
    # Later versions have the same kernels.
    Patch(
        "cmake/gen/avx512f_microkernels.cmake",
        "  src/f32-gemm/gen/f32-gemm-1x32-minmax-avx512f-broadcast.c\n",
        "  src/x32-packw/gen/x32-packw-x16-gemm-goi-avx512f-u4-prfm.c\n"
        + "".join(
            f"  src/f32-{kind}/gen/f32-{kind}-{rows}x16-minmax-avx512f-broadcast.c\n"
            for kind in ("gemm", "igemm")
            for rows in (1, 7)
        )
        + "  src/f32-gemm/gen/f32-gemm-1x32-minmax-avx512f-broadcast.c\n",
    ),
    Patch(
        "src/configs/gemm-config.c",
        "    f32_gemm_nr2_config.minmax.gemm[XNN_MR_TO_INDEX(4)] = xnn_init_hmp_gemm_ukernel("
        "(xnn_gemm_ukernel_fn) xnn_f32_gemm_minmax_ukernel_4x2c4__sse);\n",
        "#if XNN_ENABLE_AVX512F\n"
        "    if (!XNN_PLATFORM_MOBILE && xnn_init_hardware_config()->use_x86_avx512f) {\n"
        + "".join(
            f"      f32_gemm_nr2_config.minmax.{kind}[XNN_MR_TO_INDEX({rows})] ="
            f" xnn_init_hmp_{kind}_ukernel((xnn_{kind}_ukernel_fn)"
            f" xnn_f32_{kind}_minmax_ukernel_{rows}x16__avx512f_broadcast);\n"
            for kind in ("gemm", "igemm")
            for rows in (1, 7)
        )
        + """\
      f32_gemm_nr2_config.init.f32 = xnn_init_f32_minmax_scalar_params;
      f32_gemm_nr2_config.pack_gemm_gio =
          (xnn_packw_gemm_gio_ukernel_fn) xnn_pack_f32_gemm_gio_w;
      f32_gemm_nr2_config.pack_gemm_goi = (xnn_packw_gemm_goi_ukernel_fn)
          xnn_x32_packw_gemm_goi_ukernel_x16__avx512f_u4_prfm;
      f32_gemm_nr2_config.mr = 7;
      f32_gemm_nr2_config.nr = 16;
      return;
    }
#endif
"""
        "    f32_gemm_nr2_config.minmax.gemm[XNN_MR_TO_INDEX(4)] = xnn_init_hmp_gemm_ukernel("
        "(xnn_gemm_ukernel_fn) xnn_f32_gemm_minmax_ukernel_4x2c4__sse);\n",
    ),
    # The narrow kernel takes half the time of the wide one, and a little more.
    Patch(
        "src/operators/convolution-nhwc.c",
        "  if (gemm_config->nr > group_output_channels) {\n"
        "    // Default micro-kernel is suboptimal. Try to find a better micro-kernel.\n"
        "\n"
        "    if (gemm_nr2_config->minmax.igemm[gemm_config->mr].function[XNN_UARCH_DEFAULT]"
        " != NULL) {\n"
        "      gemm_config = gemm_nr2_config;\n"
        "    }\n"
        "  }\n"
        "\n"
        "  union xnn_f32_minmax_params gemm_params;\n",
        "  if (gemm_config->nr == 32 && gemm_nr2_config->nr == 16 &&\n"
        "      4 * divide_round_up(group_output_channels, 16) <="
        " 7 * divide_round_up(group_output_channels, 32)) {\n"
        "    gemm_config = gemm_nr2_config;\n"
        "  }\n"
        "\n"
        "  union xnn_f32_minmax_params gemm_params;\n",
    ),
)

TRANSPOSED = (
    # Transposed convolutions chose the kernel by the number of images instead of rows: for one
    # image that of a single row, which fetches all weights for each pixel.
    *(
        Patch(
            "src/operators/deconvolution-nhwc.c",
            f"          batch_size, mr, nr, deconvolution_op->ukernel.igemm.{kind}_cases);\n",
            "          output_width_positions, mr, nr,"
            f" deconvolution_op->ukernel.igemm.{kind}_cases);\n",
        )
        for kind in ("gemm", "igemm")
    ),
)

XNNPACK = (
    *ROWS, *TILES, *SHAPES, *PADDINGS, *WINDOWS, *WEIGHTS, *FUSION, *MEMORY, *PLAN, *NARROW,
    *TRANSPOSED, *DEPTHWISE, *TANH, *RSQRT, *PACKING, *PARTS, *DEFERRED, *SCALES, *DECODING,
    *COPIES, *PRODUCTS, *STEPS, *TABLES, *INVOKE,
)
"""The patches of XNNPACK."""

WORKERS = (FOLDER / "workers.h").read_text()
"""The replacement of src/pthreads.c of pthreadpool."""


def apply(source: Path, patches: tuple[Patch, ...] = XNNPACK) -> None:
    """Patch a source; another number of occurrences means another version."""
    for patch in patches:
        text = (source / patch.file).read_text()
        found = text.count(patch.old)
        if found != patch.times:
            raise XnnpackError(f"{patch.file} of XNNPACK's source has {patch.old.strip()!r} "
                               f"{found} times, expected {patch.times}")
        (source / patch.file).write_text(text.replace(patch.old, patch.new))
