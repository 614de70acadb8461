/* Includes EC_TEMPLATE once for every dtype of eager's matrix products; EC_G and EC_R as in
 * foreach_gemm_real.h. */
#include "kernels/linalg/foreach_gemm_real.h"
#define EC_G float _Complex
#define EC_R double _Complex
#include "core/dtype/complex64.h"
#undef EC_G
#undef EC_R
#define EC_G double _Complex
#define EC_R double _Complex
#include "core/dtype/complex128.h"
#undef EC_G
#undef EC_R
