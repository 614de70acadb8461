"""Patches that add kernels of our own for integers, and for steps between them. Part of
`patches.py`.
"""

from __future__ import annotations

from get_xnnpack.patch import FOLDER, Patch


def follow(file: str, kind: str, before: str, header: str, start: str) -> tuple[Patch, ...]:
    """Return the patches that run `start` after XNNPACK's start of a configuration.

    The header and the new function are inserted before a line.
    """
    old, new = (f"static void {name}init_{kind}_config(void) {{\n" for name in ("", "ecx_"))
    code = (
        "#if XNN_ARCH_X86_64\n#include <immintrin.h>\n\n"
        f"{(FOLDER / header).read_text()}#endif\n\n"
        f"{old}  ecx_init_{kind}_config();\n#if XNN_ARCH_X86_64\n{start}#endif\n}}\n\n"
    )
    return (Patch(file, old, new), Patch(file, before, code + before))


PRODUCTS = (
    *follow(
        # Products and convolutions of int8: sums of 7 x 16 took as long to be joined and made
        # bytes as a depth of 60 takes, and kernels counted three input channels as eight.
        "src/configs/gemm-config.c",
        "qs8_qc8w_gemm",
        "static void init_qu8_gemm_config(void) {\n",
        "products.h",
        """\
#if XNN_ENABLE_AVX512VNNI
  if (qs8_qc8w_gemm_config.minmax.gemm[XNN_MR_TO_INDEX(7)].function[XNN_UARCH_DEFAULT] ==
      (xnn_gemm_ukernel_fn) xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_7x16c8__avx512vnni_prfm)
    ecx_set_products(&qs8_qc8w_gemm_config);
#endif
""",
    ),
    # Groups of 16 channels, four at once: a task of XNNPACK has one group.
    Patch(
        "src/configs/gemm-config.c",
        '#include "xnnpack/config.h"\n',
        '#include "xnnpack/config.h"\n#include "xnnpack/operator.h"\n',
    ),
    Patch(
        "src/xnnpack/operator.h",
        "  struct xnn_hmp_gemm_ukernel gemm_cases[XNN_MAX_MR];\n  uint8_t mr;\n",
        "  struct xnn_hmp_gemm_ukernel gemm_cases[XNN_MAX_MR];\n  uint8_t ecx_step;\n"
        "  uint8_t mr;\n",
    ),
    Patch(
        "src/xnnpack/compute.h",
        "struct igemm_context {\n",
        "struct igemm_context {\n  // Bytes of an input from a column to the next.\n"
        "  size_t ecx_step;\n",
    ),
    Patch(
        "src/operators/convolution-nhwc.c",
        "static enum xnn_status create_gemm_or_igemm(\n",
        """\
#if XNN_ARCH_X86_64
bool ecx_join_groups(struct xnn_ukernel_igemm* kernel, size_t groups, size_t outputs, size_t taps,
                     size_t inputs);
#else
#define ecx_join_groups(...) false
#endif

static enum xnn_status create_gemm_or_igemm(
""",
    ),
    # Four groups read 64 bytes of padding at once.
    Patch(
        "src/operators/convolution-nhwc.c",
        "  *zero_size = XNN_EXTRA_BYTES + (k_stride << log2_input_element_size);\n",
        "  *zero_size = XNN_EXTRA_BYTES + max(64, k_stride << log2_input_element_size);\n",
    ),
    Patch(
        "src/operators/convolution-nhwc.c",
        "  convolution_op->group_output_channels = group_output_channels;\n"
        "  convolution_op->input_pixel_stride",
        """\
  convolution_op->group_output_channels = group_output_channels;
  if (ukernel_type == xnn_microkernel_type_igemm &&
      ecx_join_groups(&convolution_op->ukernel.igemm, groups, group_output_channels, kernel_size,
                      group_input_channels)) {
    convolution_op->groups = 1;
    convolution_op->group_output_channels = groups * group_output_channels;
  }
  convolution_op->input_pixel_stride""",
    ),
    Patch(
        "src/operators/convolution-nhwc.c",
        "  convolution_op->context.igemm.igemm = (struct igemm_context) {\n",
        "  convolution_op->context.igemm.igemm = (struct igemm_context) {\n"
        "      .ecx_step = convolution_op->ukernel.igemm.ecx_step,\n",
    ),
    *(
        Patch(
            "src/operator-run.c",
            f"      context->a_offset{batch},\n      context->zero,\n      &context->params);\n"
            f"}}\n\nvoid xnn_compute_{following}(\n",
            f"      context->a_offset{batch} + nr_block_start * context->ecx_step,\n"
            f"      context->zero,\n      &context->params);\n"
            f"}}\n\nvoid xnn_compute_{following}(\n",
        )
        for batch, following in (
            ("", "dqigemm"),
            (" + batch_index * context->ba_stride", "batch_dqigemm"),
        )
    ),
)

TABLES = (
    # Tables of 256 results for chains of nodes (lookup.c).
    Patch(
        "include/xnnpack.h",
        "  xnn_unary_sign,\n};\n",
        "  xnn_unary_sign,\n  xnn_unary_ecx_table,\n};\n#define EXECUTORCH_C_TABLES 1\n",
    ),
    Patch(
        "include/xnnpack.h",
        "    float negative_slope;\n  } leaky_relu;\n};\n",
        "    float negative_slope;\n  } leaky_relu;\n  const uint8_t* ecx_table;\n};\n",
    ),
    Patch(
        "src/operator-utils.c",
        "    case xnn_unary_invalid:\n",
        '    case xnn_unary_ecx_table:\n      return "table";\n    case xnn_unary_invalid:\n',
    ),
    Patch(
        "src/operators/unary-elementwise-nc.c",
        "  const struct xnn_unary_elementwise_config* config = get_config(op_type, ",
        """\
  if (op_type == xnn_unary_ecx_table) {
    op->lookup_table = xnn_allocate_simd_memory(256);
    if (op->lookup_table == NULL) {
      return xnn_status_out_of_memory;
    }
    memcpy(op->lookup_table, params->ecx_table, 256);
    op->lut_config = xnn_init_x8_lut_config();
    op->state = xnn_run_state_invalid;
    return xnn_status_success;
  }

  const struct xnn_unary_elementwise_config* config = get_config(op_type, """,
    ),
    # With threads, a task looked up 1 KB, in the time that it takes to get the next task.
    Patch(
        "src/operators/unary-elementwise-nc.c",
        "        const size_t block_size = 1024;\n",
        "        const size_t block_size = 16384;\n",
    ),
    # The kernel with AVX512-VBMI, five times as fast, was never chosen: no build has this name.
    Patch(
        "src/configs/x8-lut-config.c",
        "    #if XNN_ENABLE_AVX256VBMI\n",
        "    #if XNN_ENABLE_AVX512VBMI\n",
    ),
)

STEPS = (
    # Products element by element had vectors of 16 bytes: 9 % of MobileNetV3.
    *follow(
        "src/configs/binary-elementwise-config.c",
        "qs8_vmul",
        "static void init_qu8_vadd_config(void) {\n",
        "multiply.h",
        """\
  if (xnn_init_hardware_config()->use_x86_avx512skx) {
    qs8_vmul_config.op_ukernel = ecx_multiply_all;
    qs8_vmul_config.opc_ukernel = qs8_vmul_config.ropc_ukernel = ecx_multiply_by_one;
    qs8_vmul_config.element_tile = 32;
  }
""",
    ),
    # Batch norms that follow no convolution had vectors of four floats: 10 % of DenseNet-121.
    *follow(
        "src/configs/vmulcaddc-config.c",
        "f32_vmulcaddc",
        "const struct xnn_vmulcaddc_config* xnn_init_f16_vmulcaddc_config() {\n",
        "affine.h",
        """\
  if (xnn_init_hardware_config()->use_x86_avx512skx) {
    f32_vmulcaddc_config.ukernel = ecx_affine;
    f32_vmulcaddc_config.channel_tile = 16;
  }
""",
    ),
    # An image's three colours were transposed as 32 rows: 5 % of small networks.
    *follow(
        "src/configs/transpose-config.c",
        "transpose",
        "const struct xnn_transpose_config* xnn_init_transpose_config() {\n",
        "thirds.h",
        """\
  if (xnn_init_hardware_config()->use_x86_avx2)
    transpose_config.x8.const_size_ukernel = ecx_transpose_bytes;
""",
    ),
)
