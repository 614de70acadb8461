/* Activations of floating-point numbers. */
#define EC_NAME gelu
#define EC_EXPR(x) ((x) * (EC_C)0.5 * (1 + erf((x) * (EC_C)0x1.6a09e667f3bcdp-1)))
#include "kernels/pointwise/loop1.h"

static inline EC_C EC_FN(gelu_tanh_of)(EC_C x) {
  const EC_C beta = (EC_C)0x1.9884533d43651p-1, kappa = (EC_C)0.044715; /* sqrt(2 / pi) */
  return (EC_C)0.5 * x * (1 + tanh(beta * (x + kappa * (x * x * x))));
}

#define EC_NAME gelu_tanh
#define EC_EXPR(x) EC_FN(gelu_tanh_of)(x)
#include "kernels/pointwise/loop1.h"
/* 0: slope for negative numbers, 1: for positive ones, 2: inside the exponential */
#define EC_NAME elu
#define EC_EXPR(x) ((x) < 0 ? expm1((x) * EC_P(2)) * EC_P(0) : (x) * EC_P(1))
#include "kernels/pointwise/loop1.h"
static inline EC_C EC_FN(leaky_relu_of)(EC_C x, EC_C slope) {
  const EC_C below = x * slope; /* before the selection, so that the loop vectorises */
  return x > 0 ? x : below;
}

#define EC_NAME leaky_relu
#define EC_EXPR(x) EC_FN(leaky_relu_of)(x, EC_P(0))
#include "kernels/pointwise/loop1.h"
/* Computed in float, whose exponential vectorises. */
static inline EC_C EC_FN(glu_of)(EC_C x, EC_C gate) {
  return x * (1 / (1 + (sizeof(EC_C) == 4 ? (EC_C)ec_exp_f32((float)-gate) : exp(-gate))));
}

#define EC_NAME glu
#define EC_EXPR(x, y) EC_FN(glu_of)(x, y)
#include "kernels/pointwise/loop2.h"
