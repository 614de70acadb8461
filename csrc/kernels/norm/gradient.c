/* native_layer_norm_backward and native_group_norm_backward: with d = grad * weight and the
 * normalised x, a row's gradient is rstd * (d - mean(d) - x * mean(d * x)). */
#include <inttypes.h>

#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/norm/norm.h"

enum { NORM_LANES = 16, NORM_BLOCK = 1024 };

#define EC_TEMPLATE "kernels/norm/gradient.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef struct gradient_loops {
  void (*sums)(const void *, const void *, const void *, size_t, double, double *, double *);
  void (*columns)(const void *, const void *, size_t, double, double, double *, double *);
  void (*input)(const void *, const void *, const void *, void *, size_t, const double[4]);
} gradient_loops;

#define ROW(name)                                                                                  \
  {EC_KEEP(name, gradient_sums_##name), EC_KEEP(name, gradient_columns_##name),                    \
   EC_KEEP(name, gradient_input_##name)}

static const gradient_loops loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16),
    [EC_BFLOAT16] = ROW(bfloat16),
    [EC_FLOAT32] = ROW(float32),
    [EC_FLOAT64] = ROW(float64),
};

/* Both operators begin with the gradients and the input. */
enum { GRAD, INPUT };

/* Rows with `channels` weights for `inner` elements each; `groups` of them have different
 * weights. */
typedef struct gradient {
  const gradient_loops *loops;
  size_t item, mean, weight, mask, out; /* bytes of an element; arguments: rstd follows mean */
  int64_t rows, groups, channels, inner;
  const char *g, *x;
  const void *w;         /* for inner == 1: in the compute type */
  double *means, *rstds; /* of rows */
  double *weights;       /* numbers of all channels */
  char *to;              /* NULL: not requested */
  double *dw, *db;       /* of all channels */
} gradient;

static bool is_wanted(const ec_call *c, const gradient *s, size_t i) {
  return c->args[s->mask]->as.bools[i];
}

/* Reads doubles in row-major order to scratch. */
static ec_status read_doubles(ec_call *c, size_t arg, int64_t n, double **out) {
  const ec_tensor *t = ec_arg_opt_tensor(c, arg);
  void *data;
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof(double), out));
  for (int64_t i = 0; !t && i < n; i++) (*out)[i] = 1;
  if (!t) return EC_OK;
  EC_TRY(ec_call_packed(c, t, EC_FLOAT64, &data));
  *out = data;
  return EC_OK;
}

static ec_status check_gradient(ec_call *c, const gradient *s) {
  const ec_tensor *input = ec_arg_tensor(c, INPUT);
  size_t parameter = 0;
  EC_TRY(ec_call_check_dtype(c, GRAD, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, INPUT, GRAD));
  if (ec_arg_tensor(c, GRAD)->numel != input->numel)
    return ec_call_fail(c, GRAD, "%" PRId64 " elements, expected the %" PRId64 " of 'input'",
                        ec_arg_tensor(c, GRAD)->numel, input->numel);
  EC_TRY(ec_norm_check_parameter(c, s->weight, &parameter));
  for (size_t i = s->mean; i < s->mean + 2; i++) {
    EC_TRY(ec_norm_check_parameter(c, i, &parameter));
    if (ec_arg_tensor(c, i)->numel != s->rows)
      return ec_call_fail(c, i, "%" PRId64 " elements, expected one for each of %" PRId64 " rows",
                          ec_arg_tensor(c, i)->numel, s->rows);
  }
  if (c->args[s->mask]->count != 3)
    return ec_call_fail(c, s->mask, "%u bools, expected 3", (unsigned)c->args[s->mask]->count);
  for (size_t i = 1; i < 3; i++) {
    if (!is_wanted(c, s, i)) continue;
    if (ec_arg_is_none(c, s->weight))
      return ec_call_fail(c, s->mask, "requests the gradient of a missing weight");
    EC_TRY(ec_call_check_same_dtype(c, s->out + i, s->weight));
  }
  return is_wanted(c, s, 0) ? ec_call_check_same_dtype(c, s->out, INPUT) : EC_OK;
}

/* Resizes requested outputs (gradients of weights: to `shape`) and reads all operands. */
static ec_status prepare_gradient(ec_call *c, gradient *s, ec_ints shape) {
  const ec_tensor *input = ec_arg_tensor(c, INPUT);
  ec_dtype dtype = ec_tensor_dtype(input);
  const void *data;
  void *to, *packed;
  int64_t all = s->groups * s->channels;
  EC_TRY(check_gradient(c, s));
  if (is_wanted(c, s, 0)) EC_TRY(ec_call_resize(c, s->out, input->rank, input->sizes));
  for (size_t i = 1; i < 3; i++)
    if (is_wanted(c, s, i)) EC_TRY(ec_call_resize(c, s->out + i, shape.n, shape.v));
  if (!input->numel && ec_arg_is_none(c, s->weight)) return EC_OK;
  s->loops = &loops_of[dtype];
  s->item = ec_dtype_size(dtype);
  EC_TRY(ec_call_packed(c, ec_arg_tensor(c, GRAD), dtype, &packed));
  s->g = packed;
  EC_TRY(ec_norm_contiguous(c, input, &data));
  s->x = data;
  EC_TRY(ec_norm_parameter(c, ec_arg_opt_tensor(c, s->weight), dtype, &s->w));
  EC_TRY(read_doubles(c, s->mean, s->rows, &s->means));
  EC_TRY(read_doubles(c, s->mean + 1, s->rows, &s->rstds));
  EC_TRY(read_doubles(c, s->weight, all, &s->weights));
  EC_TRY(ec_call_scratch(c, (size_t)all, sizeof(double), &s->dw));
  EC_TRY(ec_call_scratch(c, (size_t)all, sizeof(double), &s->db));
  if (!is_wanted(c, s, 0)) return EC_OK;
  EC_TRY(ec_norm_target(c, ec_arg_tensor(c, s->out), &to));
  s->to = to;
  return EC_OK;
}

/* Sets a row's scale, slope and shift from its two sums. */
static void set_line(const gradient *s, int64_t row, double plain, double centered, double p[4]) {
  double n = (double)s->channels * (double)s->inner, r = s->rstds[row];
  p[0] = s->means[row];
  p[1] = r;
  p[2] = -r * r * r * centered / n;
  p[3] = -r * plain / n;
}

/* Processes a row with a weight per element. */
static void row_of_elements(const gradient *s, int64_t row) {
  size_t n = (size_t)s->channels, at = (size_t)row * n * s->item;
  double plain = 0, centered = 0, p[4];
  s->loops->columns(s->g + at, s->x + at, n, s->means[row], s->rstds[row], s->dw, s->db);
  if (!s->to) return;
  s->loops->sums(s->g + at, s->x + at, s->w, n, s->means[row], &plain, &centered);
  set_line(s, row, plain, centered, p);
  s->loops->input(s->g + at, s->x + at, s->w, s->to + at, n, p);
}

/* Processes a row with a weight per `inner` elements, whose sums are the gradients of weight and
 * bias. */
static void row_of_channels(const gradient *s, int64_t row) {
  size_t n = (size_t)s->inner, at = (size_t)(row * s->channels) * n * s->item;
  int64_t first = row % s->groups * s->channels;
  double plain = 0, centered = 0, p[4];
  for (int64_t i = 0; i < s->channels; i++) {
    size_t here = at + (size_t)i * n * s->item;
    double a = 0, b = 0;
    s->loops->sums(s->g + here, s->x + here, NULL, n, s->means[row], &a, &b);
    s->db[first + i] += a;
    s->dw[first + i] += b * s->rstds[row];
    plain += a * s->weights[first + i];
    centered += b * s->weights[first + i];
  }
  for (int64_t i = 0; s->to && i < s->channels; i++) {
    size_t here = at + (size_t)i * n * s->item;
    set_line(s, row, plain, centered, p);
    p[1] *= s->weights[first + i];
    s->loops->input(s->g + here, s->x + here, NULL, s->to + here, n, p);
  }
}

static ec_status run_gradient(ec_call *c, gradient *s, ec_ints shape) {
  EC_TRY(prepare_gradient(c, s, shape));
  for (int64_t row = 0; row < s->rows && ec_arg_tensor(c, INPUT)->numel; row++)
    (s->inner == 1 && s->groups == 1 ? row_of_elements : row_of_channels)(s, row);
  if (s->to) ec_norm_flush(c, ec_arg_tensor(c, s->out), s->to);
  if (is_wanted(c, s, 1)) ec_norm_store(c, ec_arg_tensor(c, s->out + 1), s->dw);
  if (is_wanted(c, s, 2)) ec_norm_store(c, ec_arg_tensor(c, s->out + 2), s->db);
  return EC_OK;
}

ec_status ec_op_native_layer_norm_backward_out(ec_call *c) {
  enum { SHAPE = 2, MEAN, WEIGHT = 5, BIAS, MASK, OUT };
  const ec_tensor *input = ec_arg_tensor(c, INPUT);
  gradient s = {.mean = MEAN, .weight = WEIGHT, .mask = MASK, .out = OUT, .rows = 1, .groups = 1,
                .inner = 1};
  ec_ints shape;
  size_t lead;
  EC_TRY(ec_arg_ints(c, SHAPE, &shape));
  EC_TRY(ec_norm_check_layer(c, SHAPE, shape, input, &lead));
  EC_TRY(ec_norm_check_shape(c, WEIGHT, shape));
  EC_TRY(ec_norm_check_shape(c, BIAS, shape));
  if (!ec_numel(input->sizes, lead, &s.rows) || !ec_numel(shape.v, shape.n, &s.channels))
    return ec_call_fail(c, INPUT, "too many elements");
  return run_gradient(c, &s, shape);
}

ec_status ec_op_native_group_norm_backward_out(ec_call *c) {
  enum { MEAN = 2, WEIGHT = 4, N, MASK = 9, OUT };
  gradient s = {.mean = MEAN, .weight = WEIGHT, .mask = MASK, .out = OUT};
  EC_TRY(ec_norm_check_group(c, INPUT, WEIGHT, N));
  int64_t channels = ec_arg_int(c, N + 1);
  s.groups = ec_arg_int(c, N + 3);
  s.channels = channels / s.groups;
  s.inner = ec_arg_int(c, N + 2);
  if (!ec_mul_i64(ec_arg_int(c, N), s.groups, &s.rows))
    return ec_call_fail(c, N, "too many rows");
  return run_gradient(c, &s, (ec_ints){&channels, 1});
}
