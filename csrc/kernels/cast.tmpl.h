/* Conversions from every dtype to one. Macros of the source, as in core/dtype/: */
#define EC_FROM_FN(name) EC_PASTE(EC_FN(name), EC_FROM)
/* The baseline instruction set has no efficient conversion of wide comparison results to bytes, and
 * only short vectors for rounding to float16 and bfloat16. */
#if EC_IS_BOOL || EC_IS_FLOAT
#define EC_CAST_CLONES EC_CLONES
#else
#define EC_CAST_CLONES
#endif

/* Selects by the target's width and sign; the compiler folds all other branches away. */
static inline EC_T EC_FN(from_f32)(float x) {
#if EC_IS_FLOAT || EC_IS_COMPLEX || EC_IS_BOOL
  return EC_STORE((EC_C)x);
#else
  if (sizeof(EC_T) == 8 && EC_LOWEST == 0) return (EC_T)ec_f64_to_u64((double)x);
  if (sizeof(EC_T) == 8 || (sizeof(EC_T) == 4 && EC_LOWEST == 0)) return (EC_T)ec_f32_to_i64(x);
  return (EC_T)ec_f32_to_i32(x);
#endif
}

/* Eager's uint8 are the lowest bits of an int64, its uint16 those of an int32; float32 has no odd
 * integers that large. */
static inline EC_T EC_FN(from_f64)(double x) {
#if EC_IS_FLOAT || EC_IS_COMPLEX || EC_IS_BOOL
  return EC_STORE((EC_C)x);
#else
  if (sizeof(EC_T) == 8 && EC_LOWEST == 0) return (EC_T)ec_f64_to_u64(x);
  if (sizeof(EC_T) == 8 || (sizeof(EC_T) != 2 && EC_LOWEST == 0)) return (EC_T)ec_f64_to_i64(x);
  return (EC_T)ec_f64_to_i32(x);
#endif
}

#if EC_IS_COMPLEX
#define EC_FROM_COMPLEX(x) ((EC_C)(x))
#elif EC_IS_BOOL
#define EC_FROM_COMPLEX(x) ((x) != 0)
#else
#define EC_FROM_COMPLEX(x) EC_FN(from_f64)((double)creal(x))
#endif

#define EC_FROM uint8
#define EC_FROM_T uint8_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM int8
#define EC_FROM_T int8_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM int16
#define EC_FROM_T int16_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM int32
#define EC_FROM_T int32_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM int64
#define EC_FROM_T int64_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM uint16
#define EC_FROM_T uint16_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM uint32
#define EC_FROM_T uint32_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM uint64
#define EC_FROM_T uint64_t
#define EC_CONVERT(x) EC_STORE((EC_C)(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM bool8
#define EC_FROM_T uint8_t
#define EC_CONVERT(x) EC_STORE((EC_C)((x) != 0))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float16
#define EC_FROM_T uint16_t
#define EC_CONVERT(x) EC_FN(from_f32)(ec_f16_to_f32(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM bfloat16
#define EC_FROM_T uint16_t
#define EC_CONVERT(x) EC_FN(from_f32)(ec_bf16_to_f32(x))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float32
#define EC_FROM_T float
#define EC_CONVERT(x) EC_FN(from_f32)(x)
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float64
#define EC_FROM_T double
#define EC_CONVERT(x) EC_FN(from_f64)(x)
#include "kernels/cast_from.tmpl.h"
#define EC_FROM complex64
#define EC_FROM_T float _Complex
#define EC_CONVERT(x) EC_FROM_COMPLEX(x)
#include "kernels/cast_from.tmpl.h"
#define EC_FROM complex128
#define EC_FROM_T double _Complex
#define EC_CONVERT(x) EC_FROM_COMPLEX(x)
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float8_e5m2
#define EC_FROM_T uint8_t
#define EC_CONVERT(x) EC_FN(from_f32)(ec_f8_to_f32(x, EC_F8_E5M2))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float8_e4m3fn
#define EC_FROM_T uint8_t
#define EC_CONVERT(x) EC_FN(from_f32)(ec_f8_to_f32(x, EC_F8_E4M3FN))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float8_e5m2fnuz
#define EC_FROM_T uint8_t
#define EC_CONVERT(x) EC_FN(from_f32)(ec_f8_to_f32(x, EC_F8_E5M2FNUZ))
#include "kernels/cast_from.tmpl.h"
#define EC_FROM float8_e4m3fnuz
#define EC_FROM_T uint8_t
#define EC_CONVERT(x) EC_FN(from_f32)(ec_f8_to_f32(x, EC_F8_E4M3FNUZ))
#include "kernels/cast_from.tmpl.h"

static const ec_cast_fn EC_FN(casts)[EC_DTYPE_COUNT] = {EC_ROWS_STORED(EC_FN(cast))};

#undef EC_CAST_CLONES
#undef EC_FROM_COMPLEX
#undef EC_FROM_FN
