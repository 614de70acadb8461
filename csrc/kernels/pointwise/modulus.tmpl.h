/* Real-valued functions and predicates of complex numbers. */

/* In double, squares of float32 neither overflow nor round. */
static inline __typeof__(__real__(EC_T)0) EC_FN(absolute_of)(EC_C x) {
  if (sizeof(EC_C) == sizeof(double _Complex)) return fabs(x);
  const float real = (float)creal(x), imag = (float)cimag(x);
  const float root = (float)sqrt((double)real * (double)real + (double)imag * (double)imag);
  return (fabs(real) == INFINITY) | (fabs(imag) == INFINITY) ? INFINITY : root;
}

#define EC_NAME absolute
#define EC_LOOP_CLONES
#define EC_OUT __typeof__(__real__(EC_T)0)
#define EC_PUT(x) (x)
#define EC_EXPR(x) EC_FN(absolute_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME is_nan
#define EC_PREDICATE
#define EC_EXPR(x) (isnan(creal(x)) || isnan(cimag(x)))
#include "kernels/pointwise/loop1.h"
#define EC_NAME is_inf
#define EC_PREDICATE
#define EC_EXPR(x) (isinf(creal(x)) || isinf(cimag(x)))
#include "kernels/pointwise/loop1.h"
