/* Batch normalisation: a scale and a shift per channel, then one walk over the tensor. */
#include <inttypes.h>
#include <math.h>

#include "core/alloc.h"
#include "kernels/norm/norm.h"

enum { COST = 2 }; /* of an element, relative to a copied one */

typedef struct batch {
  const ec_tensor *input, *weight, *bias;
  ec_tensor *mean, *var; /* running statistics; NULL: none */
  ec_dtype dtype;
  int64_t channels;
  double eps;
  double *means, *invstds; /* per channel, in use */
} batch;

static ec_status check_vector(ec_call *c, size_t i, int64_t channels, size_t *parameter) {
  const ec_tensor *t = ec_arg_opt_tensor(c, i);
  if (t && (t->rank != 1 || t->sizes[0] != channels)) {
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, i, "shape %s, expected (%" PRId64 ",), the channels of 'input'",
                        ec_shape_text(t->sizes, t->rank, text, sizeof text), channels);
  }
  return ec_norm_check_parameter(c, i, parameter);
}

/* Checks arguments 0 to 2, with `running` also 3 and 4, and outputs from `out` on. */
static ec_status prepare_batch(ec_call *c, batch *b, bool running, size_t out) {
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_rank(c, 0, 2, EC_MAX_RANK));
  EC_TRY(ec_call_check_same_dtype(c, out, 0));
  EC_TRY(ec_call_check_dtype(c, out + 1, EC_SET_FLOATING));
  EC_TRY(ec_call_check_dtype(c, out + 2, EC_SET_FLOATING));
  b->input = ec_arg_tensor(c, 0);
  b->weight = ec_arg_opt_tensor(c, 1);
  b->bias = ec_arg_opt_tensor(c, 2);
  b->mean = running ? ec_arg_tensor(c, 3) : NULL;
  b->var = running ? ec_arg_tensor(c, 4) : NULL;
  b->dtype = ec_tensor_dtype(b->input);
  b->channels = b->input->sizes[1];
  size_t parameter = 0;
  for (size_t i = 1; i < (running ? 5u : 3u); i++)
    EC_TRY(check_vector(c, i, b->channels, &parameter));
  EC_TRY(ec_call_scratch(c, (size_t)b->channels, sizeof(double), &b->means));
  return ec_call_scratch(c, (size_t)b->channels, sizeof(double), &b->invstds);
}

static ec_view vector_of(const double *values, int64_t n) {
  return (ec_view){(char *)(uintptr_t)values, EC_FLOAT64, 1, {n}, {1}};
}

/* Reads a parameter as doubles. */
static void read_vector(const ec_call *c, const ec_tensor *t, double *values) {
  ec_view from = ec_view_of(t), to = vector_of(values, t->numel);
  ec_copy_view(c, &to, &from);
}

static double invstd(double var, double eps) { return 1 / sqrt(var + eps); }

static void use_running(const ec_call *c, batch *b) {
  read_vector(c, b->mean, b->means);
  read_vector(c, b->var, b->invstds);
  for (int64_t i = 0; i < b->channels; i++) b->invstds[i] = invstd(b->invstds[i], b->eps);
}

static void run_piece(void *user, ec_iter *it, size_t piece) {
  ec_loop loop = *(const ec_loop *)user;
  (void)piece;
  do loop(it->count, it->at, it->step, NULL);
  while (ec_iter_next(it));
}

/* out = input * (weight * invstd) + (bias - mean * weight * invstd), in the compute type. */
static ec_status apply_batch_norm(ec_call *c, const batch *b, ec_tensor *out) {
  size_t n = (size_t)b->channels, item = ec_dtype_size(ec_norm_computed(b->dtype));
  double *scale, *shift;
  char *scales, *shifts;
  EC_TRY(ec_call_scratch(c, n, sizeof *scale, &scale));
  EC_TRY(ec_call_scratch(c, n, sizeof *shift, &shift));
  EC_TRY(ec_call_scratch(c, n, item, &scales));
  EC_TRY(ec_call_scratch(c, n, item, &shifts));
  for (size_t i = 0; i < n; i++) scale[i] = 1;
  if (b->weight) read_vector(c, b->weight, scale);
  if (b->bias) read_vector(c, b->bias, shift);
  for (size_t i = 0; i < n; i++) {
    scale[i] *= b->invstds[i];
    shift[i] -= b->means[i] * scale[i];
  }
  ec_cast_fn cast = ec_cast(ec_norm_computed(b->dtype), EC_FLOAT64);
  cast(b->channels, scales, (int64_t)item, (const char *)scale, sizeof *scale);
  cast(b->channels, shifts, (int64_t)item, (const char *)shift, sizeof *shift);
  int64_t sizes[EC_MAX_RANK] = {1, b->channels}, strides[EC_MAX_RANK] = {0, 1};
  for (size_t d = 2; d < out->rank; d++) sizes[d] = 1;
  ec_iter it;
  ec_iter_init(&it, out->rank, out->sizes);
  ec_iter_tensor(&it, out);
  ec_iter_tensor(&it, b->input);
  ec_iter_add(&it, scales, item, out->rank, sizes, strides);
  ec_iter_add(&it, shifts, item, out->rank, sizes, strides);
  ec_loop loop = ec_norm_loops_of[b->dtype].channels;
  if (ec_iter_start(&it)) ec_iter_run(c, &it, ec_iter_pieces(c, &it, COST), run_piece, &loop);
  return EC_OK;
}

/* Normalises by the running statistics; saves nothing. */
static ec_status run_inference(ec_call *c, batch *b, size_t out) {
  int64_t none = 0;
  EC_TRY(ec_call_resize(c, out, b->input->rank, b->input->sizes));
  EC_TRY(ec_call_resize(c, out + 1, 1, &none));
  EC_TRY(ec_call_resize(c, out + 2, 1, &none));
  use_running(c, b);
  return apply_batch_norm(c, b, ec_arg_tensor(c, out));
}

/* Copies one channel in row-major order and computes its mean and population variance. */
static void measure_channel(const ec_call *c, const batch *b, int64_t channel, char *row,
                            double *mean, double *var) {
  ec_view from = ec_view_of(b->input), to;
  int64_t size = (int64_t)ec_dtype_size(b->dtype), n = b->input->numel / b->channels;
  from.sizes[1] = 1;
  from.data += channel * from.strides[1] * size;
  to = from;
  to.data = row;
  int64_t stride = 1;
  for (size_t d = to.rank; d-- > 0; stride *= to.sizes[d]) to.strides[d] = stride;
  ec_copy_view(c, &to, &from);
  ec_norm_loops_of[b->dtype].moments(row, (size_t)n, mean, var);
  *var /= (double)n;
}

/* Mixes the statistics of this call into a running statistic. */
static void update_running(const ec_call *c, ec_tensor *t, const double *values, double momentum,
                           double *scratch) {
  if (!t) return;
  read_vector(c, t, scratch);
  for (int64_t i = 0; i < t->numel; i++)
    scratch[i] = momentum * values[i] + (1 - momentum) * scratch[i];
  ec_norm_store(c, t, scratch);
}

/* Normalises by the statistics of this input, which are saved and mixed into the running ones. */
static ec_status run_training(ec_call *c, batch *b, double momentum, size_t out) {
  EC_TRY(ec_call_resize(c, out, b->input->rank, b->input->sizes));
  EC_TRY(ec_call_resize(c, out + 1, 1, &b->channels));
  EC_TRY(ec_call_resize(c, out + 2, 1, &b->channels));
  if (b->input->numel == 0)
    return ec_call_fail(c, 0, "no elements, expected some for the statistics");
  double n = (double)(b->input->numel / b->channels), *vars, *scratch;
  char *row;
  EC_TRY(ec_call_scratch(c, (size_t)b->channels, sizeof *vars, &vars));
  EC_TRY(ec_call_scratch(c, (size_t)b->channels, sizeof *scratch, &scratch));
  EC_TRY(ec_call_scratch(c, (size_t)(b->input->numel / b->channels), ec_dtype_size(b->dtype),
                         &row));
  for (int64_t i = 0; i < b->channels; i++) {
    measure_channel(c, b, i, row, &b->means[i], &vars[i]);
    b->invstds[i] = invstd(vars[i], b->eps);
    vars[i] *= n / (n - 1); /* running variances are unbiased */
  }
  EC_TRY(apply_batch_norm(c, b, ec_arg_tensor(c, out)));
  update_running(c, b->mean, b->means, momentum, scratch);
  update_running(c, b->var, vars, momentum, scratch);
  ec_norm_store(c, ec_arg_tensor(c, out + 1), b->means);
  ec_norm_store(c, ec_arg_tensor(c, out + 2), b->invstds);
  return EC_OK;
}

ec_status ec_op_native_batch_norm_legit_no_training_out(ec_call *c) {
  batch b = {.eps = ec_arg_double(c, 6)};
  EC_TRY(prepare_batch(c, &b, true, 7));
  return run_inference(c, &b, 7);
}

ec_status ec_op_native_batch_norm_legit_out(ec_call *c) {
  batch b = {.eps = ec_arg_double(c, 7)};
  EC_TRY(prepare_batch(c, &b, true, 8));
  if (!ec_arg_bool(c, 5)) return run_inference(c, &b, 8);
  return run_training(c, &b, ec_arg_double(c, 6), 8);
}

ec_status ec_op_native_batch_norm_legit_no_stats_out(ec_call *c) {
  batch b = {.eps = ec_arg_double(c, 5)};
  EC_TRY(prepare_batch(c, &b, false, 6));
  return run_training(c, &b, 0, 6);
}
