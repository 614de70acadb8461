"""Patches that add kernels of our own. Part of `patches.py`."""

from __future__ import annotations


from get_xnnpack.patch import FOLDER, Patch


Taps = tuple[int, ...]
LARGE_TAPS = (31, 36, 49, 81, 121)
AVX512 = "avx512f,avx512bw,avx512dq,avx512vl"
DEPTHWISE_SETS = (
    # A condition of the preprocessor, a name, the compiler's target, the floats of a vector, and
    # the taps of kernels for floats and for bytes. ARM keeps XNNPACK's own up to 25 taps.
    ("XNN_ARCH_X86_64", "avx512", AVX512, 16, (9, 25), (9, 25)),
    ("XNN_ARCH_X86_64", "avx2", "avx2,fma", 8, (9, 25), (25,)),
    ("XNN_ARCH_ARM64", "neon", "", 4, (), ()),
)


def kernel_set(condition: str, header: str, name: str, target: str, **macros: str | int) -> str:
    """Return the kernels of a header for an instruction set."""
    macros = {
        "SET(name)": f"ecx_{name}_##name",
        "TARGET": f'__attribute__((target("{target}")))' if target else "",
        **macros,
    }
    lines = "".join(f"#define ECX_{macro} {value}\n" for macro, value in macros.items())
    return f"#if {condition}\n{lines}{(FOLDER / header).read_text()}#endif\n"


def depthwise_set(
    condition: str, name: str, target: str, lanes: int, floats: Taps, int8: Taps
) -> str:
    """Return the depthwise kernels for an instruction set."""
    rows = {
        f"{kind}_TAPS(row)": " ".join(f"row({taps})" for taps in (*few, *LARGE_TAPS))
        for kind, few in (("FLOAT", floats), ("BYTE", int8))
    }
    return kernel_set(condition, "depthwise.h", name, target, LANES=lanes, **rows)


def depthwise_vnni(channels: int, vector: str) -> str:
    """Return the depthwise kernels of int8 with AVX512-VNNI, in vectors of 32 or 64 channels."""
    macros: dict[str, str | int] = {
        "CHANNELS": channels,
        "VECTOR": f"__m{8 * channels}i",
        "FLOATS": f"__m{8 * channels}",
        "MASK": f"__mmask{channels}",
        "OP(name)": f"{vector}_##name",
        "BYTE_TAPS(row)": " ".join(f"row({taps})" for taps in (9, 25, *LARGE_TAPS)),
    }
    target = f"{AVX512},avx512vnni"
    return kernel_set("XNN_ARCH_X86_64", "depthwise_vnni.h", f"vnni{channels}", target, **macros)


DEPTHWISE = (
    # Filters of 7 x 7 and more ran as general convolutions of one channel, 20 times slower.
    # Only filters of exactly these taps: a kernel reads the inputs of all its taps, and those
    # beyond the filter are other pixels, whose infinities would become NaN.
    *(
        Patch(
            "src/xnnpack/config.h",
            f"#define XNN_MAX_{name}_DWCONV_UKERNELS {count}\n",
            f"#define XNN_MAX_{name}_DWCONV_UKERNELS {count + 5}\n",
        )
        for name, count in (("F32", 4), ("QC8", 3))
    ),
    Patch(
        "src/operators/convolution-nhwc.c",
        "    if (ukernel->last_tile == 0 && ukernel->primary_tile >= kernel_size) {\n",
        "    if (ukernel->last_tile == 0 && ukernel->primary_tile >= kernel_size &&\n"
        "        (ukernel->primary_tile <= 25 || ukernel->primary_tile == kernel_size)) {\n",
    ),
    *(
        Patch(
            "src/configs/dwconv-config.c",
            f"static void init_{kind}_dwconv_config(void) {{\n",
            f"static void ecx_init_{kind}_dwconv_config(void) {{\n",
        )
        for kind in ("f32", "qs8_qc8w")
    ),
    # The configurations 2 and 3 of floats are those of 9 and 25 taps, 1 and 2 of bytes; larger
    # ones follow.
    Patch(
        "src/configs/dwconv-config.c",
        "static void init_qs8_dwconv_config(void) {\n",
        "#if XNN_ARCH_X86_64\n#include <immintrin.h>\n#endif\n#include <string.h>\n\n"
        f"enum {{ ECX_MOST_TAPS = {max(LARGE_TAPS)} }};\n"
        + "".join(depthwise_set(*row) for row in DEPTHWISE_SETS)
        + depthwise_vnni(64, "_mm512")
        + depthwise_vnni(32, "_mm256")
        + """
static void init_f32_dwconv_config(void) {
  ecx_init_f32_dwconv_config();
#if XNN_ARCH_X86_64
  const struct xnn_hardware_config* hardware = xnn_init_hardware_config();
  if (hardware->use_x86_avx512skx)
    ecx_avx512_set_floats(&f32_dwconv_config[2]);
  else if (hardware->use_x86_avx2 && hardware->use_x86_fma3)
    ecx_avx2_set_floats(&f32_dwconv_config[2]);
#elif XNN_ARCH_ARM64
  ecx_neon_set_floats(&f32_dwconv_config[4]);
#endif
}

static void init_qs8_qc8w_dwconv_config(void) {
  ecx_init_qs8_qc8w_dwconv_config();
#if XNN_ARCH_X86_64
  const struct xnn_hardware_config* hardware = xnn_init_hardware_config();
  if (hardware->use_x86_avx512skx)
    ecx_avx512_set_bytes(&qs8_qc8w_dwconv_config[1]);
  else if (hardware->use_x86_avx2 && hardware->use_x86_fma3)
    ecx_avx2_set_bytes(&qs8_qc8w_dwconv_config[2]);
  if (hardware->use_x86_avx512skx && hardware->use_x86_avx512vnni)
    ecx_vnni_set_bytes(&qs8_qc8w_dwconv_config[1]);
#endif
}

static void init_qs8_dwconv_config(void) {
""",
    ),
)

TANH_SETS = (
    # A condition of the preprocessor, a name, the compiler's target, the floats of a vector.
    ("XNN_ARCH_X86_64", "avx512", AVX512, 16),
    ("XNN_ARCH_X86_64", "avx2", "avx2,fma", 8),
    ("XNN_ARCH_X86_64 || XNN_ARCH_ARM64", "plain", "", 4),
)
TANH = (
    # XNNPACK's tanh of floats is up to 2.7 units in the last place from PyTorch's, this one 1.
    Patch(
        "src/configs/unary-elementwise-config.c",
        "static void init_f32_tanh_config(void) {\n",
        "static void ecx_init_f32_tanh_config(void) {\n",
    ),
    Patch(
        "src/configs/unary-elementwise-config.c",
        "static void init_f32_to_f16_cvt_config(void) {\n",
        "#if XNN_ARCH_X86_64\n#include <immintrin.h>\n#endif\n\n"
        + "".join(
            kernel_set(condition, "tanh.h", name, target, LANES=lanes)
            for condition, name, target, lanes in TANH_SETS
        )
        + """
static void init_f32_tanh_config(void) {
  ecx_init_f32_tanh_config();
#if XNN_ARCH_X86_64
  const struct xnn_hardware_config* hardware = xnn_init_hardware_config();
  f32_tanh_config.ukernel = hardware->use_x86_avx512skx ? ecx_avx512_tanh
      : hardware->use_x86_avx2 && hardware->use_x86_fma3 ? ecx_avx2_tanh : ecx_plain_tanh;
#elif XNN_ARCH_ARM64
  f32_tanh_config.ukernel = ecx_plain_tanh;
#endif
}

static void init_f32_to_f16_cvt_config(void) {
""",
    ),
    # For claims of tanh (claim_simple.c).
    Patch(
        "include/xnnpack.h",
        "#define EXECUTORCH_C_CORRECTIONS 1\n",
        "#define EXECUTORCH_C_CORRECTIONS 1\n"
        "#if defined(__x86_64__) || defined(__aarch64__)\n"
        "#define EXECUTORCH_C_TANH 1\n"
        "#endif\n",
    ),
)

RSQRT = (
    # The vector kernels refine an estimate, and give NaN for 0, infinity and subnormal numbers, and
    # a wrong result above 1e38; the plain one, which 64-bit Arm has, divides by the root.
    Patch(
        "src/configs/unary-elementwise-config.c",
        "static void init_f32_rsqrt_config(void) {\n  #if XNN_ARCH_ARM\n",
        "static void init_f32_rsqrt_config(void) {\n"
        "  #if XNN_ARCH_X86_64\n"
        "    f32_rsqrt_config.ukernel =\n"
        "        (xnn_vunary_ukernel_fn) xnn_f32_vrsqrt_ukernel__scalar_rsqrt_u4;\n"
        "  #elif XNN_ARCH_ARM\n",
    ),
)
