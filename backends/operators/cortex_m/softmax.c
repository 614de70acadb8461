/* The softmax of int8, in float32 as in the flow's reference; arm_softmax_s8 rounds at other places
 * and may differ by one step. */
#include "softmax.h"

#include "loop.h"
#include "requantize.h"

#include <math.h>

enum {
  INTEGER_BITS = 5,  /* of the fixed-point input of CMSIS-NN's exponential */
  OUTPUT_ZERO = -128 /* the output has the scale 1 / 256 */
};

typedef struct softmax {
  const int8_t *in;
  int8_t *out;
  float *values;  /* of one row */
  float scale;
  int32_t zero;
} softmax;

/* Computes one row, along the dimension of the softmax. */
static void softmax_row(const void *user, const cm_row *row) {
  const softmax *p = user;
  const int8_t *in = p->in + row->at[CM_A];
  int8_t *out = p->out + row->at[CM_OUT];
  float most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < row->n; i++) {
    const int32_t x = (int32_t)((uint32_t)in[i * row->step[CM_A]] - (uint32_t)p->zero);
    p->values[i] = (float)x * p->scale;
    if (p->values[i] > most) most = p->values[i];
  }
  for (int64_t i = 0; i < row->n; i++) sum += p->values[i] = expf(p->values[i] - most);
  for (int64_t i = 0; i < row->n; i++) {
    const float q = nearbyintf(p->values[i] / sum * 256) + OUTPUT_ZERO;
    out[i * row->step[CM_OUT]] = (int8_t)cm_clamp_float(q, INT8_MIN, INT8_MAX);
  }
}

/* Moves dimension `dim` of a loop to its end: rows go along it. */
static void softmax_turn(cm_loop *loop, size_t dim) {
  const size_t last = loop->rank - 1;
  const int64_t size = loop->sizes[dim];
  loop->sizes[dim] = loop->sizes[last];
  loop->sizes[last] = size;
  for (size_t k = 0; k < CM_OPERANDS; k++) {
    const int64_t step = loop->steps[k][dim];
    loop->steps[k][dim] = loop->steps[k][last];
    loop->steps[k][last] = step;
  }
}

static uint32_t softmax_read(const cm_call *c, softmax *p) {
  cm_factor factor;
  int32_t zero;
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_check(c, 7, "out", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_int32(c, 2, "input_zero_point", &p->zero));
  EC_BACKEND_TRY(cm_int32(c, 3, "output_zero_point", &zero));
  EC_BACKEND_TRY(cm_read_factor(c, 4, "input", &factor));
  if (zero != OUTPUT_ZERO)
    return EC_ARG_FAIL(c, "'output_zero_point' is %d, expected %d", zero, OUTPUT_ZERO);
  if (factor.multiplier <= 0)
    return EC_ARG_FAIL(c, "'input_multiplier' is %d, expected more than 0", factor.multiplier);
  p->scale = (float)ldexp(factor.multiplier,
                          factor.left - factor.right - 31 - (31 - INTEGER_BITS));
  return EC_BACKEND_OK;
}

uint32_t cm_softmax(const cm_call *c) {
  const ec_backend_tensor *x = cm_tensor(c, 0);
  int64_t dim = c->args[1].as.i;
  softmax p = {.in = x->data};
  cm_loop loop = {.rank = x->rank};
  EC_BACKEND_TRY(softmax_read(c, &p));
  if (dim < -(int64_t)x->rank || dim >= x->rank)
    return EC_ARG_FAIL(c, "'dim' is %lld for %u dimensions", (long long)dim, (unsigned)x->rank);
  if (dim < 0) dim += x->rank;
  for (size_t d = 0; d < loop.rank; d++) {
    loop.sizes[d] = x->sizes[d];
    loop.steps[CM_A][d] = x->strides[d];
  }
  p.values = c->host->scratch(c->call, (size_t)loop.sizes[dim] * sizeof *p.values + 1);
  if (!p.values)
    return c->host->fail(c->call, EC_BACKEND_ALLOCATION_FAILED, "no memory for a row of %lld",
                         (long long)loop.sizes[dim]);
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[7], loop.rank, loop.sizes));
  const ec_backend_tensor *to = cm_tensor(c, 7);
  for (size_t d = 0; d < loop.rank; d++) loop.steps[CM_OUT][d] = to->strides[d];
  p.out = to->data;
  softmax_turn(&loop, (size_t)dim);
  cm_loop_run(&loop, softmax_row, &p);
  return EC_BACKEND_OK;
}
