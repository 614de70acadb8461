/* The table of convolution's loops by dtype. */
#include <string.h>

#include "core/simd.h"
#include "core/template.h"
#include "kernels/conv/conv.h"

#define EC_TEMPLATE "kernels/conv/conv_pack.tmpl.h"
#include "kernels/linalg/foreach_gemm_real.h"
#undef EC_TEMPLATE

#define EC_TEMPLATE "kernels/conv/conv_direct.tmpl.h"
#include "kernels/linalg/foreach_gemm_real.h"
#undef EC_TEMPLATE

#define ROW(name)                                                                                  \
  {pack_rows_##name, pack_channels_##name, pack_weights_##name, depthwise_rows_##name,             \
   depthwise_channels_##name, reference_##name}

const ec_conv_loops ec_conv_loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16), [EC_BFLOAT16] = ROW(bfloat16), [EC_FLOAT32] = ROW(float32),
    [EC_FLOAT64] = ROW(float64), [EC_UINT8] = ROW(uint8),       [EC_INT8] = ROW(int8),
    [EC_INT16] = ROW(int16),     [EC_INT32] = ROW(int32),       [EC_INT64] = ROW(int64),
};
