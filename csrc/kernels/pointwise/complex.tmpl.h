/* Conversion between complex and real numbers, by the dtype of the inputs. */
#if EC_IS_COMPLEX
#define EC_NAME angle
#define EC_OUT __typeof__(__real__(EC_T)0)
#define EC_PUT(x) (x)
#define EC_EXPR(x) carg(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME conjugate
#define EC_EXPR(x) conj(x)
#include "kernels/pointwise/loop1.h"

#elif EC_IS_FLOAT
#define EC_NAME angle /* NaN stays; the angle of either zero is 0 */
#define EC_EXPR(x) (isnan(x) ? (x) : (x) < 0 ? (EC_C)0x1.921fb54442d18p+1 : 0)
#include "kernels/pointwise/loop1.h"
#define EC_NAME conjugate
#define EC_EXPR(x) (x)
#include "kernels/pointwise/loop1.h"

static inline _Complex EC_C EC_FN(pair)(EC_C real, EC_C imag) {
  _Complex EC_C z;
  __real__ z = real;
  __imag__ z = imag;
  return z;
}

#define EC_NAME cartesian
#define EC_OUT _Complex EC_C
#define EC_PUT(x) (x)
#define EC_EXPR(x, y) EC_FN(pair)(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME polar
#define EC_OUT _Complex EC_C
#define EC_PUT(x) (x)
#define EC_EXPR(x, y) EC_FN(pair)((x) * cos(y), (x) * sin(y))
#include "kernels/pointwise/loop2.h"

#else
#define EC_NAME conjugate
#define EC_EXPR(x) (x)
#include "kernels/pointwise/loop1.h"
#endif
