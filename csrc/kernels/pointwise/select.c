/* where and masked_fill: elements are copied unchanged, so loops depend only on the element
 * size. */
#include <math.h>
#include <string.h>

#include "core/simd.h"
#include "kernels/pointwise/elementwise.h"

#define EC_TEMPLATE "kernels/pointwise/select.tmpl.h"
#include "core/foreach/item_size.h"
#undef EC_TEMPLATE

static ec_status run_where(ec_call *c, size_t o, ec_dtype result, const ec_tensor *condition,
                           const ec_tensor *yes, const ec_tensor *no) {
  ec_elementwise p = {.inputs = 3, .logical = result, .compute = result};
  p.in[0] = (ec_operand){condition, EC_BOOL, EC_BOOL};
  p.in[1] = (ec_operand){yes, result, result};
  p.in[2] = (ec_operand){no, result, result};
  switch (ec_dtype_size(result)) {
  case 1: p.loop = choose_1; break;
  case 2: p.loop = choose_2; break;
  case 4: p.loop = choose_4; break;
  case 8: p.loop = choose_8; break;
  default: p.loop = choose_16;
  }
  return ec_elementwise_run(c, o, &p);
}

/* Scores, their softmax and the result: ec_call.zero_rows. */
typedef struct safe_rows {
  const float *scores, *softmax;
  float *out;
  size_t width;
} safe_rows;

static bool is_hidden(const float *row, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(row[i] == -INFINITY)) return false;
  return true;
}

static void clear_rows(void *user, size_t begin, size_t end) {
  const safe_rows *s = user;
  const size_t bytes = s->width * sizeof *s->out;
  for (size_t at = begin * s->width; at < end * s->width; at += s->width) {
    if (is_hidden(s->scores + at, s->width)) memset(s->out + at, 0, bytes);
    else if (s->out != s->softmax) memmove(s->out + at, s->softmax + at, bytes);
  }
}

/* Runs the fused calls after a softmax: static shapes, which runtime/passes/fuse.c has checked. */
static ec_status run_safe_rows(ec_call *c) {
  enum { GRAIN = 1 << 14 };
  const ec_tensor *x = ec_arg_tensor(c, 0), *y = ec_arg_tensor(c, 1);
  safe_rows s = {.scores = x->data, .softmax = y->data, .out = ec_arg_tensor(c, 3)->data,
                 .width = (size_t)x->sizes[x->rank - 1]};
  if (!x->numel) return EC_OK;
  ec_parallel_for(c, (size_t)x->numel / s.width, GRAIN / s.width + 1, clear_rows, &s);
  return EC_OK;
}

ec_status ec_op_where_self_out(ec_call *c) {
  ec_dtype result;
  if (c->zero_rows) return run_safe_rows(c);
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_BOOL) | EC_BIT(EC_UINT8)));
  EC_TRY(ec_call_promote(c, 1, 2, &result));
  return run_where(c, 3, result, ec_arg_tensor(c, 0), ec_arg_tensor(c, 1), ec_arg_tensor(c, 2));
}

ec_status ec_op_masked_fill_scalar_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  ec_number value;
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_BOOL)));
  EC_TRY(ec_call_check_scalar(c, 2, dtype));
  ec_number_init(&value, dtype, ec_arg_scalar(c, 2));
  return run_where(c, 3, dtype, ec_arg_tensor(c, 1), &value.tensor, self);
}
