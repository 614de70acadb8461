/* _fft_c2c, _fft_r2c, _fft_c2r: one axis at a time. */
#include "kernels/fft/fft.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/promote.h"

enum {
  LANES = 16,
  VECTOR_SIZE = 8, /* elements in vectors for odd radices */
  TILE = 16,    /* elements of a line moved before those of the next one */
  BLOCK = 8192  /* elements of a work array that fit the cache */
};

/* exp(-2 pi i j / n) for j < n: the angle is reduced to an eighth of a turn. */
static void root_of(size_t j, size_t n, double out[2]) {
  const double turn = 0x1.921fb54442d18p+2;
  const size_t eighth = 8 * j / n; /* n < 2^59, because elements have at least four bytes */
  const size_t quarters = (eighth + 1) / 2;
  const double rest = (double)((int64_t)(4 * j) - (int64_t)(quarters * n)) / 4.0;
  const double angle = turn * (rest / (double)n), cosine = cos(angle), sine = sin(angle);
  const double re[4] = {cosine, -sine, -cosine, sine};
  out[0] = re[quarters & 3];
  out[1] = re[(quarters + 1) & 3]; /* minus the sine of the whole angle */
}

/* Factors n, 4 first; no factors if a prime is too large or n is 1. */
static ec_status ec_fft_plan(ec_call *c, size_t n, const void *roots, size_t root_step,
                             ec_fft *plan) {
  *plan = (ec_fft){.n = n, .room = n, .roots = roots, .root_step = root_step};
  if (n > SIZE_MAX / 64) return ec_fail(c->err, EC_INVALID_ARGUMENT, "%zu elements in a line", n);
  size_t rest = n;
  for (size_t r = 4; rest > 1;) {
    if (rest % r == 0) {
      plan->factors[plan->count++] = r;
      rest /= r;
    } else {
      r = r == 4 ? 2 : r == 2 ? 3 : r + 2;
      if (r > EC_FFT_RADIX) break;
    }
  }
  if (rest > 1) plan->count = 0;
  return EC_OK;
}

#define EC_TEMPLATE "kernels/fft/fft.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

/* Transforms `in` along `dim` to `out`, which may be the same memory for c2c. */
static ec_status transform_dim(ec_call *c, const ec_view *out, const ec_view *in, size_t dim,
                               ec_fft_kind kind, bool forward, double scale) {
  const bool real_in = kind == EC_FFT_R2C;
  int64_t sizes[EC_MAX_RANK];
  ec_iter it;
  ec_fft_axis axis = {.kind = kind, .forward = forward, .scale = scale, .lanes = LANES};
  axis.in_n = (size_t)in->sizes[dim], axis.out_n = (size_t)out->sizes[dim];
  axis.in_stride = in->strides[dim], axis.out_stride = out->strides[dim];
  axis.n = real_in ? axis.in_n : axis.out_n;
  axis.half = kind != EC_FFT_C2C && axis.n % 2 == 0;
  memcpy(sizes, out->sizes, sizeof sizes);
  sizes[dim] = 1;
  ec_iter_init(&it, out->rank, sizes);
  ec_iter_add(&it, out->data, ec_dtype_size(out->dtype), out->rank, sizes, out->strides);
  ec_iter_add(&it, in->data, ec_dtype_size(in->dtype), in->rank, sizes, in->strides);
  if (!ec_iter_start(&it)) return EC_OK;
  while (axis.lanes > 1 && /* at least one vector of lines, however long they are */
         (axis.lanes / 2 >= (size_t)it.count || (axis.lanes > 8 && axis.n * axis.lanes > BLOCK)))
    axis.lanes /= 2;
  const bool wide = ec_to_real(in->dtype) == EC_FLOAT64;
  EC_TRY((wide ? prepare_float64 : prepare_float32)(c, &axis));
  for (bool more = true; more; more = ec_iter_next(&it))
    for (int64_t i = 0; i < it.count; i += (int64_t)axis.lanes) {
      char *at[2] = {it.at[0] + i * it.step[0], it.at[1] + i * it.step[1]};
      const int64_t count = ec_min_i64((int64_t)axis.lanes, it.count - i);
      (wide ? lines_float64 : lines_float32)(&axis, (size_t)count, at, it.step);
    }
  return EC_OK;
}

/* Checked dimensions and normalisation of a call. */
typedef struct spectrum {
  size_t n, dims[EC_MAX_RANK];
  double scale;
} spectrum;

static ec_status start_spectrum(ec_call *c, ec_dtype_set set, spectrum *s) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_ints dims;
  bool seen[EC_MAX_RANK] = {0};
  EC_TRY(ec_call_check_dtype(c, 0, set));
  EC_TRY(ec_arg_ints(c, 1, &dims));
  *s = (spectrum){.scale = 1};
  for (size_t i = 0; i < dims.n; i++) {
    size_t dim;
    EC_TRY(ec_call_wrap_dim(c, dims.v[i], self->rank, &dim));
    if (self->rank == 0 || seen[dim])
      return ec_call_fail(c, 1, "dimension %" PRId64 " is out of range or repeated", dims.v[i]);
    seen[dim] = true;
    s->dims[s->n++] = dim;
  }
  const int64_t mode = ec_arg_int(c, 2);
  if (mode < 0 || mode > 2) return ec_call_fail(c, 2, "unknown normalization %" PRId64, mode);
  return EC_OK;
}

/* Sets the scale for the sizes of the signal. Fails if a transformed dimension is empty. */
static ec_status set_scale(ec_call *c, const int64_t *sizes, spectrum *s) {
  double n = 1;
  for (size_t i = 0; i < s->n; i++) {
    if (sizes[s->dims[i]] < 1) return ec_call_fail(c, 1, "a transformed dimension has no elements");
    n *= (double)sizes[s->dims[i]];
  }
  const int64_t mode = ec_arg_int(c, 2);
  s->scale = mode == 0 ? 1 : mode == 1 ? 1 / sqrt(n) : 1 / n;
  return EC_OK;
}

/* c2c along dims[0 .. n): the first from `in` to `out`, the others in place. */
static ec_status transform_dims(ec_call *c, const ec_view *out, const ec_view *in,
                                const spectrum *s, size_t n, bool forward, double scale) {
  for (size_t i = n; i--;)
    EC_TRY(transform_dim(c, out, i == n - 1 ? in : out, s->dims[i], EC_FFT_C2C, forward,
                         i ? 1 : scale));
  return EC_OK;
}

ec_status ec_op_fft_c2c_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 4);
  spectrum s;
  EC_TRY(start_spectrum(c, EC_SET_COMPLEX, &s));
  EC_TRY(ec_call_check_same_dtype(c, 4, 0));
  if (self->numel) EC_TRY(set_scale(c, self->sizes, &s));
  EC_TRY(ec_call_resize(c, 4, self->rank, self->sizes));
  const ec_view from = ec_view_of(self), to = ec_view_of(out);
  if (s.n == 0) ec_copy_view(c, &to, &from);
  return self->numel ? transform_dims(c, &to, &from, &s, s.n, ec_arg_bool(c, 3), s.scale) : EC_OK;
}

ec_status ec_op_fft_r2c_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 4);
  spectrum s;
  EC_TRY(start_spectrum(c, EC_BIT(EC_FLOAT32) | EC_BIT(EC_FLOAT64), &s));
  const bool wide = ec_tensor_dtype(self) == EC_FLOAT64;
  EC_TRY(ec_call_check_dtype(c, 4, EC_BIT(wide ? EC_COMPLEX128 : EC_COMPLEX64)));
  if (s.n == 0) return ec_call_fail(c, 1, "no dimension to transform");
  EC_TRY(set_scale(c, self->sizes, &s));
  int64_t sizes[EC_MAX_RANK];
  const size_t last = s.dims[s.n - 1];
  memcpy(sizes, self->sizes, sizeof sizes);
  if (ec_arg_bool(c, 3)) sizes[last] = sizes[last] / 2 + 1;
  EC_TRY(ec_call_resize(c, 4, self->rank, sizes));
  const ec_view from = ec_view_of(self), to = ec_view_of(out);
  EC_TRY(transform_dim(c, &to, &from, last, EC_FFT_R2C, true, s.n == 1 ? s.scale : 1));
  return transform_dims(c, &to, &to, &s, s.n - 1, true, s.scale);
}

ec_status ec_op_fft_c2r_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 4);
  const int64_t n = ec_arg_int(c, 3);
  spectrum s;
  int64_t sizes[EC_MAX_RANK];
  EC_TRY(start_spectrum(c, EC_SET_COMPLEX, &s));
  EC_TRY(ec_call_check_dtype(c, 4, EC_BIT(ec_to_real(ec_tensor_dtype(self)))));
  if (s.n == 0) return ec_call_fail(c, 1, "no dimension to transform");
  const size_t last = s.dims[s.n - 1];
  if (n < 1 || self->sizes[last] < n / 2 + 1)
    return ec_call_fail(c, 3, "%" PRId64 " elements from %" PRId64, n, self->sizes[last]);
  memcpy(sizes, self->sizes, sizeof sizes);
  sizes[last] = n;
  EC_TRY(set_scale(c, sizes, &s));
  EC_TRY(ec_call_resize(c, 4, self->rank, sizes));
  ec_view from = ec_view_of(self), to = ec_view_of(out);
  if (self->numel == 0) return EC_OK;
  from.sizes[last] = n / 2 + 1;
  if (s.n > 1) { /* the complex part, in separate memory with the same strides */
    ec_view between = from;
    EC_TRY(ec_call_scratch(c, (size_t)self->numel, ec_dtype_size(from.dtype), &between.data));
    EC_TRY(transform_dims(c, &between, &from, &s, s.n - 1, false, 1));
    from = between;
  }
  return transform_dim(c, &to, &from, last, EC_FFT_C2R, false, s.scale);
}
