"""Patches of the packing of weights, which is most of the time of loading a large program."""

from __future__ import annotations


from get_xnnpack.patch import FOLDER, Patch


PANEL = (
    "{indent}for (size_t kr_block_start = 0; kr_block_start < round_up_po2(kc, skr);"
    " kr_block_start += kr) {{\n"
    "{indent}  for (size_t nr_block_offset = 0; nr_block_offset < nr_block_size;"
    " nr_block_offset++) {{\n"
    "{indent}    const size_t kc_begin = round_down_po2(kr_block_start, skr) +"
    " ((kr_block_start + nr_block_offset * kr) & (skr - 1));\n"
    "{indent}    const size_t kc_end = std::min(kc, kc_begin + kr);\n"
    "{indent}    if (kc_begin < kc_end) {{\n"
)
"""The loops that pack a panel of `nr` output channels."""
INTERLEAVED = (
    "{indent}if (skr == 1) {{\n"
    "{indent}  packed_weights ="
    " ecx_interleave(&k[{start}], {stride}, nr_block_size, kc, nr, packed_weights);\n"
    "{indent}}}\n"
) + PANEL.replace("round_up_po2(kc, skr)", "(skr == 1 ? 0 : round_up_po2(kc, skr))")

NIBBLES = """\
          for (size_t kr_block_offset = {start}; kr_block_offset < kr; kr_block_offset++) {{
            const size_t kc_idx = kc_begin + kr_block_offset;
            const size_t k_offset = (nr_block_start + nr_block_offset) * kc + kc_idx;
            const size_t kh_offset = k_offset + kr;
            uint8_t kv_lo = 8;
"""

PACKING = (
    # Packing calls memmove for every float weight; without, resnet18 loads in two thirds of the
    # CPU time.
    Patch(
        "src/reference/packing.cc",
        "template <typename Src, typename Dst>\n"
        "void copy_bias(const Src* b, size_t b_offset, size_t n, Dst* packed_b) {\n",
        (FOLDER / "interleave.h").read_text() + "template <typename Src, typename Dst>\n"
        "void copy_bias(const Src* b, size_t b_offset, size_t n, Dst* packed_b) {\n",
    ),
    Patch(
        "src/reference/packing.cc",
        PANEL.format(indent=" " * 6)
        + "            std::copy_n(&k[(nr_block_start + nr_block_offset) * kc + kc_begin],"
        " kc_end - kc_begin, packed_weights);\n",
        INTERLEAVED.format(indent=" " * 6, start="nr_block_start * kc", stride="kc")
        + "            std::copy_n(&k[(nr_block_start + nr_block_offset) * kc + kc_begin],"
        " kc_end - kc_begin, packed_weights);\n",
        times=3,
    ),
    Patch(
        "src/reference/packing.cc",
        PANEL.format(indent=" " * 8)
        + "              std::copy_n(&k[((nr_block_start + nr_block_offset) * ks + ki) * kc"
        " + kc_begin], kc_end - kc_begin, packed_weights);\n",
        INTERLEAVED.format(
            indent=" " * 8, start="(nr_block_start * ks + ki) * kc", stride="ks * kc"
        )
        + "              std::copy_n(&k[((nr_block_start + nr_block_offset) * ks + ki) * kc"
        " + kc_begin], kc_end - kc_begin, packed_weights);\n",
        times=3,
    ),
    # Weights of 4 bits by groups are packed nibble by nibble: half the time of loading a Llama.
    Patch(
        "src/reference/packing.cc",
        "void xnn_pack_qs8_qb4w_gemm_goi_w(\n",
        (FOLDER / "nibbles.h").read_text() + "\nvoid xnn_pack_qs8_qb4w_gemm_goi_w(\n",
    ),
    Patch(
        "src/reference/packing.cc",
        NIBBLES.format(start="0"),
        NIBBLES.format(
            start="\n               ecx_pack_nibbles(k, (nr_block_start + nr_block_offset) * kc,"
            " kc_begin, kc,\n                                kr, packed_weights, &ksum)"
        ),
    ),
)

PARTS = (
    # The weights of a linear layer are packed in parts, by all threads of the runtime.
    Patch(
        "src/operators/fully-connected-nc.c",
        "static enum xnn_status create_fully_connected_nc(\n",
        (FOLDER / "parts.h").read_text() + "\nstatic enum xnn_status create_fully_connected_nc(\n",
    ),
    Patch(
        "src/operators/fully-connected-nc.c",
        "    void* weights_ptr = xnn_get_pointer_to_write_weights(\n"
        "        fully_connected_op, aligned_total_weights_size, packed_weights_padding_byte);\n",
        "    const bool in_parts = gemm_config->pack_weights_and_biases == NULL &&\n"
        "        (flags & XNN_FLAG_TRANSPOSE_WEIGHTS) == 0;\n"
        "    struct ecx_weights weights = {\n"
        "      .input_channels = input_channels, .output_channels = output_channels,\n"
        "      .row_bits = filter_is_nibble ? 4 * input_channels\n"
        "                                   : 8 * input_channels << log2_filter_element_size,\n"
        "      .weights_stride = weights_stride, .nr = nr, .kr = kr, .sr = sr,\n"
        "      .block_size = block_size, .num_blocks = num_blocks,\n"
        "      .extra_bl_bytes = extra_bl_bytes, .extra_weights_bytes = extra_weights_bytes,\n"
        "      .bias_element_size = bias_element_size,\n"
        "      .scales_offset =\n"
        "          nr * ((k_stride << log2_filter_element_size) + bias_element_size),\n"
        "      .kernel = kernel, .bias = bias, .packing_params = packing_params,\n"
        "      .block_scales = blockwise_kernel_scale_params,\n"
        "      .kernel_scales = kernel_scale_params, .scales = scale_params,\n"
        "      .pack = pack_gemm_goi_w, .pack_bl = pack_gemm_goi_bl_w,\n"
        "      .init_kernel_scales = init_kernel_scale_params, .init_scales = init_scale_params,\n"
        "      .padding_byte = packed_weights_padding_byte,\n"
        "      .is_filled = block_size == 0 && extra_weights_bytes == 0 &&\n"
        "          output_channels % nr == 0 && input_channels % (kr * sr) == 0,\n"
        "    };\n"
        "    void* weights_ptr = !in_parts ? NULL\n"
        "        : ecx_defer(fully_connected_op->weights_cache, &cache_key, operator_type,"
        " &weights,\n"
        "                    aligned_total_weights_size);\n"
        "    const bool is_deferred = weights_ptr != NULL;\n"
        "    if (!is_deferred) {\n"
        "      weights_ptr = xnn_get_pointer_to_write_weights(\n"
        "          fully_connected_op, aligned_total_weights_size,\n"
        "          in_parts ? -1 : packed_weights_padding_byte);\n"
        "    }\n",
    ),
    Patch(
        "src/operators/fully-connected-nc.c",
        "    if (gemm_config->pack_weights_and_biases) {\n"
        "      gemm_config->pack_weights_and_biases(\n",
        "    if (is_deferred) {\n"
        "      // packed by the third product\n"
        "    } else if (in_parts) {\n"
        "      weights.packed = weights_ptr;\n"
        "      ecx_pack(&weights, aligned_total_weights_size);\n"
        "    } else if (gemm_config->pack_weights_and_biases) {\n"
        "      gemm_config->pack_weights_and_biases(\n",
    ),
    Patch(
        "src/operator-utils.c",
        "  memset(weights_ptr, padding_byte, aligned_weights_size);\n",
        "  if (padding_byte >= 0) {\n"
        "    ecx_populate(weights_ptr, aligned_weights_size);\n"
        "    memset(weights_ptr, padding_byte, aligned_weights_size);\n"
        "  }\n",
    ),
    Patch(
        "src/operator-utils.c",
        "void* xnn_get_pointer_to_write_weights(\n",
        "XNN_INTERNAL void ecx_populate(void* block, size_t size); // memory.c\n\n"
        "void* xnn_get_pointer_to_write_weights(\n",
    ),
    Patch(
        "src/memory.c",
        "static size_t system_page_size = 0;\n",
        (FOLDER / "populate.h").read_text() + "\nstatic size_t system_page_size = 0;\n",
    ),
    Patch(
        "src/runtime.c",
        '#include "pthreadpool.h"\n',
        '#include "pthreadpool.h"\n\nextern XNN_INTERNAL _Thread_local pthreadpool_t'
        " ecx_packing_threads; // fully-connected-nc.c\n",
    ),
    Patch(
        "src/runtime.c",
        "      status = node->create(node, runtime->values, runtime->num_values,"
        " runtime->opdata + i, code_cache, weights_cache);\n",
        "      ecx_packing_threads = threadpool;\n"
        "      status = node->create(node, runtime->values, runtime->num_values,"
        " runtime->opdata + i, code_cache, weights_cache);\n"
        "      ecx_packing_threads = NULL;\n",
    ),
)

DEFERRED = (
    # The first tokens wait for packing: the third product of a layer packs its weights.
    Patch(
        "include/xnnpack.h",
        "/// A group of function pointers to manage weights cache. All functions may be\n",
        (FOLDER / "deferral.h").read_text()
        + "\n/// A group of function pointers to manage weights cache. All functions may be\n",
    ),
    Patch(
        "include/xnnpack.h",
        "  enum xnn_status (*delete_cache)(void* context);\n};\n",
        "  enum xnn_status (*delete_cache)(void* context);\n\n"
        "  const struct ecx_deferral* deferral; // NULL: no weights are deferred\n};\n",
    ),
    Patch(
        "src/xnnpack/compute.h",
        "struct gemm_context {\n",
        (FOLDER / "deferred.h").read_text() + "struct gemm_context {\n"
        "  struct ecx_deferred* deferred; // NULL: the weights are packed\n"
        "  xnn_weights_cache_t cache;\n",
    ),
    Patch(
        "src/operators/fully-connected-nc.c",
        "  fully_connected_op->context.gemm.gemm.gemm = (struct gemm_context){\n",
        "  const xnn_weights_cache_t cache = fully_connected_op->weights_cache;\n"
        "  fully_connected_op->context.gemm.gemm.gemm = (struct gemm_context){\n"
        "      .deferred = cache == NULL || cache->deferral == NULL ? NULL\n"
        "          : cache->deferral->find(cache->context, packed_weights(fully_connected_op)),\n"
        "      .cache = cache,\n",
    ),
    Patch(
        "src/operator-run.c",
        '#include "pthreadpool.h"\n',
        '#include "pthreadpool.h"\n\n'
        "XNN_INTERNAL void ecx_populate(void* block, size_t size); // memory.c\n\n"
        + (FOLDER / "first_products.h").read_text(),
    ),
    Patch(
        "src/operator-run.c",
        "        ecx_given);\n    switch (op->compute[i].type) {\n",
        "        ecx_given);\n"
        "    const void* ecx_context =\n"
        "        (const void*) ((uintptr_t) &op->context + op->compute[i].context_offset);\n"
        "    if (ecx_is_deferred(&op->compute[i], ecx_context)) {\n"
        "      const enum xnn_status status = ecx_multiply_deferred(\n"
        "          ecx_context, op->compute[i].range[0], threadpool, flags);\n"
        "      if (status != xnn_status_success) return status;\n"
        "      continue;\n"
        "    }\n"
        "    switch (op->compute[i].type) {\n",
    ),
)

SCALES = (
    # Scales of groups are checked by isnormal, when a value is defined and when an operator is
    # created: a tenth of the time of loading a Llama with 4 bits.
    *(
        Patch(
            file,
            '#include "xnnpack/math.h"\n',
            '#include "xnnpack/math.h"\n\n' + (FOLDER / "scales.h").read_text() + "\n",
        )
        for file in ("src/tensor.c", "src/operators/fully-connected-nc.c")
    ),
    Patch(
        "src/tensor.c",
        "  for (size_t block = 0; block < block_count; block++) {\n",
        "  const bool are_scales = ecx_are_scales(scale, block_count);\n"
        "  for (size_t block = 0; !are_scales && block < block_count; block++) {\n",
    ),
    Patch(
        "src/operators/fully-connected-nc.c",
        "  size_t num_blocks = input_channels / block_size;\n"
        "  for (size_t output_channel = 0; output_channel < output_channels; output_channel++) {\n",
        "  size_t num_blocks = input_channels / block_size;\n"
        "  const bool are_scales = ecx_are_scales(kernel_scale, output_channels * num_blocks);\n"
        "  for (size_t output_channel = 0; !are_scales && output_channel < output_channels;"
        " output_channel++) {\n",
        3,
    ),
)
