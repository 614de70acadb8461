/* native_layer_norm and native_group_norm: rows of a row-major tensor. */
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "kernels/norm/norm.h"

/* Shared state of both operators. */
typedef struct norm {
  const ec_tensor *input;
  ec_dtype dtype;
  const void *x, *w, *b;
  void *out;
  double *means, *rstds; /* of each row */
  int64_t rows, n;       /* rows of n elements */
  double eps;
} norm;

/* Reads operands in row-major order and resizes the first output. */
static ec_status prepare_norm(ec_call *c, norm *s, size_t weight, size_t out) {
  s->dtype = ec_tensor_dtype(s->input);
  EC_TRY(ec_norm_contiguous(c, s->input, &s->x));
  EC_TRY(ec_norm_parameter(c, ec_arg_opt_tensor(c, weight), s->dtype, &s->w));
  EC_TRY(ec_norm_parameter(c, ec_arg_opt_tensor(c, weight + 1), s->dtype, &s->b));
  EC_TRY(ec_norm_target(c, ec_arg_tensor(c, out), &s->out));
  EC_TRY(ec_call_scratch(c, (size_t)s->rows, sizeof(double), &s->means));
  return ec_call_scratch(c, (size_t)s->rows, sizeof(double), &s->rstds);
}

static void resize_moments(ec_call *c, const norm *s, size_t out) {
  ec_norm_flush(c, ec_arg_tensor(c, out), s->out);
  ec_norm_store(c, ec_arg_tensor(c, out + 1), s->means);
  ec_norm_store(c, ec_arg_tensor(c, out + 2), s->rstds);
}

/* Computes mean and 1 / standard deviation of a row; 0 and NaN for an empty one. */
static void measure_row(norm *s, int64_t row, const void *x) {
  double squares;
  ec_norm_loops_of[s->dtype].moments(x, (size_t)s->n, &s->means[row], &squares);
  s->rstds[row] = 1 / sqrt(squares / (double)s->n + s->eps);
}

static void *element_at(const void *data, int64_t index, ec_dtype dtype) {
  return (char *)data + index * (int64_t)ec_dtype_size(dtype);
}

/* Returns the number of rows worth another thread. */
static size_t rows_grain(const norm *s) { return 1 + (1 << 15) / ((size_t)s->n + 1); }

static void normalize_rows(void *user, size_t begin, size_t end) {
  norm *s = user;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    const void *x = element_at(s->x, i * s->n, s->dtype);
    measure_row(s, i, x);
    ec_norm_loops_of[s->dtype].normalize(x, s->w, s->b, element_at(s->out, i * s->n, s->dtype),
                                         (size_t)s->n, s->means[i], s->rstds[i]);
  }
}

/* Checks that outputs 0 to 2 are floating point, the first with the input's dtype. */
static ec_status check_outputs(ec_call *c, size_t out) {
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, out, 0));
  EC_TRY(ec_call_check_dtype(c, out + 1, EC_SET_FLOATING));
  return ec_call_check_dtype(c, out + 2, EC_SET_FLOATING);
}

enum { L_INPUT, L_SHAPE, L_WEIGHT, L_BIAS, L_EPS, L_OUT };

ec_status ec_norm_check_shape(ec_call *c, size_t i, ec_ints shape) {
  const ec_tensor *t = ec_arg_opt_tensor(c, i);
  if (!t) return EC_OK;
  bool same = t->rank == shape.n;
  for (size_t d = 0; same && d < shape.n; d++) same = t->sizes[d] == shape.v[d];
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  if (same) return EC_OK;
  return ec_call_fail(c, i, "shape %s, expected %s as in 'normalized_shape'",
                      ec_shape_text(t->sizes, t->rank, actual, sizeof actual),
                      ec_shape_text(shape.v, shape.n, expected, sizeof expected));
}

ec_status ec_norm_check_layer(ec_call *c, size_t i, ec_ints shape, const ec_tensor *input,
                              size_t *lead) {
  bool same = shape.n >= 1 && shape.n <= input->rank;
  *lead = same ? input->rank - shape.n : 0;
  for (size_t d = 0; same && d < shape.n; d++) same = shape.v[d] == input->sizes[*lead + d];
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  if (same) return EC_OK;
  return ec_call_fail(c, i, "found %s, expected the last sizes of 'input', which is %s",
                      ec_shape_text(shape.v, shape.n, actual, sizeof actual),
                      ec_shape_text(input->sizes, input->rank, expected, sizeof expected));
}

static ec_status check_layer(ec_call *c, norm *s, size_t *lead) {
  ec_ints shape;
  EC_TRY(ec_arg_ints(c, L_SHAPE, &shape));
  EC_TRY(ec_norm_check_layer(c, L_SHAPE, shape, s->input, lead));
  EC_TRY(ec_norm_check_shape(c, L_WEIGHT, shape));
  EC_TRY(ec_norm_check_shape(c, L_BIAS, shape));
  EC_TRY(check_outputs(c, L_OUT));
  size_t parameter = 0;
  EC_TRY(ec_norm_check_parameter(c, L_WEIGHT, &parameter));
  return ec_norm_check_parameter(c, L_BIAS, &parameter);
}

ec_status ec_op_native_layer_norm_out(ec_call *c) {
  norm s = {.input = ec_arg_tensor(c, L_INPUT), .rows = 1, .n = 1, .eps = ec_arg_double(c, L_EPS)};
  size_t lead;
  EC_TRY(check_layer(c, &s, &lead));
  int64_t sizes[EC_MAX_RANK];
  for (size_t d = 0; d < s.input->rank; d++) sizes[d] = d < lead ? s.input->sizes[d] : 1;
  if (!ec_numel(sizes, s.input->rank, &s.rows) ||
      !ec_numel(s.input->sizes + lead, s.input->rank - lead, &s.n))
    return ec_call_fail(c, L_INPUT, "too many elements");
  EC_TRY(ec_call_resize(c, L_OUT, s.input->rank, s.input->sizes));
  EC_TRY(ec_call_resize(c, L_OUT + 1, s.input->rank, sizes));
  EC_TRY(ec_call_resize(c, L_OUT + 2, s.input->rank, sizes));
  EC_TRY(prepare_norm(c, &s, L_WEIGHT, L_OUT));
  ec_parallel_for(c, (size_t)s.rows, rows_grain(&s), normalize_rows, &s);
  resize_moments(c, &s, L_OUT);
  return EC_OK;
}

enum { G_INPUT, G_WEIGHT, G_BIAS, G_N, G_C, G_HXW, G_GROUP, G_EPS, G_OUT };

static ec_status check_vector(ec_call *c, size_t i, int64_t channels) {
  const ec_tensor *t = ec_arg_opt_tensor(c, i);
  if (!t || (t->rank == 1 && t->sizes[0] == channels)) return EC_OK;
  char text[EC_SHAPE_TEXT];
  return ec_call_fail(c, i, "shape %s, expected (%" PRId64 ",)",
                      ec_shape_text(t->sizes, t->rank, text, sizeof text), channels);
}

ec_status ec_norm_check_group(ec_call *c, size_t input, size_t weight, size_t n) {
  int64_t sizes[3] = {ec_arg_int(c, n), ec_arg_int(c, n + 1), ec_arg_int(c, n + 2)};
  int64_t groups = ec_arg_int(c, n + 3), actual = ec_arg_tensor(c, input)->numel, numel;
  if (groups <= 0 || sizes[1] < 0 || sizes[1] % groups)
    return ec_call_fail(c, n + 3, "%" PRId64 ", expected a positive divisor of the %" PRId64
                        " channels", groups, sizes[1]);
  if (!ec_numel(sizes, 3, &numel) || numel != actual)
    return ec_call_fail(c, input, "%" PRId64 " elements, expected N x C x HxW = %" PRId64
                        " x %" PRId64 " x %" PRId64, actual, sizes[0], sizes[1], sizes[2]);
  return check_vector(c, weight, sizes[1]);
}

static ec_status check_group(ec_call *c) {
  EC_TRY(check_outputs(c, G_OUT));
  EC_TRY(ec_norm_check_group(c, G_INPUT, G_WEIGHT, G_N));
  EC_TRY(check_vector(c, G_BIAS, ec_arg_int(c, G_C)));
  size_t parameter = 0;
  EC_TRY(ec_norm_check_parameter(c, G_WEIGHT, &parameter));
  return ec_norm_check_parameter(c, G_BIAS, &parameter);
}

/* Returns one number of a parameter in the compute type. */
static double number_at(const norm *s, const void *data, int64_t i, double otherwise) {
  if (!data) return otherwise;
  return s->dtype == EC_FLOAT64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Normalises the channels of one group of one image. */
static void apply_group(const norm *s, int64_t row, int64_t group, int64_t channels) {
  int64_t inner = s->n / channels;
  for (int64_t i = 0; i < channels; i++) {
    int64_t at = row * s->n + i * inner, channel = group * channels + i;
    double scale = s->rstds[row] * number_at(s, s->w, channel, 1);
    ec_norm_loops_of[s->dtype].affine(element_at(s->x, at, s->dtype),
                                      element_at(s->out, at, s->dtype),
                                      (size_t)inner, s->means[row], scale,
                                      number_at(s, s->b, channel, 0));
  }
}

typedef struct group_norm {
  norm *norm;
  int64_t groups, channels; /* per image, per group */
} group_norm;

static void normalize_groups(void *user, size_t begin, size_t end) {
  const group_norm *g = user;
  norm *s = g->norm;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    measure_row(s, i, element_at(s->x, i * s->n, s->dtype));
    if (s->n) apply_group(s, i, i % g->groups, g->channels);
  }
}

ec_status ec_op_native_group_norm_out(ec_call *c) {
  norm s = {.input = ec_arg_tensor(c, G_INPUT), .eps = ec_arg_double(c, G_EPS)};
  EC_TRY(check_group(c));
  int64_t n = ec_arg_int(c, G_N), groups = ec_arg_int(c, G_GROUP);
  int64_t channels = ec_arg_int(c, G_C) / groups;
  EC_TRY(ec_call_resize(c, G_OUT, s.input->rank, s.input->sizes));
  EC_TRY(ec_call_resize(c, G_OUT + 1, 2, (int64_t[]){n, groups}));
  EC_TRY(ec_call_resize(c, G_OUT + 2, 2, (int64_t[]){n, groups}));
  s.rows = ec_arg_tensor(c, G_OUT + 1)->numel;
  s.n = s.rows ? s.input->numel / s.rows : 0;
  EC_TRY(prepare_norm(c, &s, G_WEIGHT, G_OUT));
  group_norm g = {&s, groups, channels};
  ec_parallel_for(c, (size_t)s.rows, rows_grain(&s), normalize_groups, &g);
  resize_moments(c, &s, G_OUT);
  return EC_OK;
}
