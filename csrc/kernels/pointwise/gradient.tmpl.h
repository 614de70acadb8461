/* Gradients of activations, from the result's gradient and the activation's input. */
static inline EC_C EC_FN(silu_gradient_of)(EC_C grad, EC_C x) {
  const EC_C s = ec_over((EC_C)1, (EC_C)1 + exp(-x));
  return ec_times(ec_times(grad, s), (EC_C)1 + ec_times(x, (EC_C)1 - s));
}

#define EC_NAME silu_gradient
#define EC_EXPR(grad, x) EC_FN(silu_gradient_of)(grad, x)
#include "kernels/pointwise/loop2.h"

#if !EC_IS_COMPLEX
/* 0: the bound below which the activation is flat; at NaN it is flat, too, as in eager's vector
 * code */
#define EC_NAME shrink_gradient
#define EC_EXPR(grad, x) ((x) < -EC_P(0) || (x) > EC_P(0) ? (grad) : 0)
#include "kernels/pointwise/loop2.h"
#endif
