/* Fourier transforms of the last two dimensions, one after the other, in float64. */
#include <math.h>

#include "operators.h"

enum { MAX_SIZE = 8192 };

/* Complex numbers in rows: `step` apart along the dimension that is transformed. */
typedef struct line {
  const double *in;
  double *out;
  int64_t n, step;
  double sign;
} line;

static void transform(const line *l) {
  const double angle = l->sign * 2 * 3.14159265358979323846 / (double)l->n;
  for (int64_t k = 0; k < l->n; k++) {
    double real = 0, imag = 0;
    for (int64_t i = 0; i < l->n; i++) {
      const double a = angle * (double)(i * k % l->n), c = cos(a), s = sin(a);
      const double *x = l->in + 2 * i * l->step;
      real += x[0] * c - x[1] * s;
      imag += x[0] * s + x[1] * c;
    }
    l->out[2 * k * l->step] = real;
    l->out[2 * k * l->step + 1] = imag;
  }
}

typedef struct fft {
  const float *real, *imag; /* imag NULL: zeros */
  double *planes, *turned;
  float *out_real, *out_imag;
  int64_t height, width, out_width;
  double sign;
} fft;

static void run_planes(void *user, size_t begin, size_t end) {
  const fft *f = user;
  const int64_t plane = f->height * f->width;
  for (int64_t n = (int64_t)begin; n < (int64_t)end; n++) {
    double *from = f->planes + 2 * n * plane, *to = f->turned + 2 * n * plane;
    for (int64_t i = 0; i < plane; i++) {
      from[2 * i] = (double)f->real[n * plane + i];
      from[2 * i + 1] = f->imag ? (double)f->imag[n * plane + i] : 0;
    }
    for (int64_t y = 0; y < f->height; y++)
      transform(&(line){from + 2 * y * f->width, to + 2 * y * f->width, f->width, 1, f->sign});
    for (int64_t x = 0; x < f->width; x++)
      transform(&(line){to + 2 * x, from + 2 * x, f->height, f->width, f->sign});
    for (int64_t i = 0; i < f->height * f->out_width; i++) {
      const int64_t at = i / f->out_width * f->width + i % f->out_width;
      f->out_real[n * f->height * f->out_width + i] = (float)from[2 * at];
      f->out_imag[n * f->height * f->out_width + i] = (float)from[2 * at + 1];
    }
  }
}

static uint32_t read_floats(const eto_call *c, size_t i, const char *name,
                            const eto_tensor **out) {
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, i, name, ETO_NUMBERS, 3, out));
  return (*out)->dtype == EC_DTYPE_FLOAT32
             ? EC_BACKEND_OK
             : EC_ARG_FAIL(c, "'%s' has dtype %d, expected float32", name, (*out)->dtype);
}

/* Transforms `x`; `out` is the first of two outputs. */
static uint32_t run_fft(const eto_call *c, const eto_tensor *x, size_t out, fft *f) {
  const eto_tensor *outs[2];
  const int64_t sizes[] = {x->sizes[0], x->sizes[1], f->out_width};
  if (x->sizes[1] > MAX_SIZE || x->sizes[2] > MAX_SIZE)
    return EC_ARG_FAIL(c, "an image of %lld by %lld, expected at most %d", (long long)x->sizes[1],
                       (long long)x->sizes[2], MAX_SIZE);
  for (size_t i = 0; i < 2; i++) {
    EC_BACKEND_TRY(EC_ARG_OUTPUT(c, out + i, ETO_NUMBERS, 3, sizes, &outs[i]));
    if (outs[i]->dtype != EC_DTYPE_FLOAT32)
      return EC_ARG_FAIL(c, "'out' has dtype %d, expected float32", outs[i]->dtype);
  }
  if (!ec_arg_count(x)) return EC_BACKEND_OK;
  f->real = x->data;
  f->height = x->sizes[1];
  f->width = x->sizes[2];
  f->out_real = outs[0]->data;
  f->out_imag = outs[1]->data;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, ec_arg_count(x), 2 * sizeof(double), &f->planes));
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, ec_arg_count(x), 2 * sizeof(double), &f->turned));
  c->host->parallel_for(c->call, (size_t)x->sizes[0], 1, run_planes, f);
  return EC_BACKEND_OK;
}

uint32_t eto_fft2d(const eto_call *c) {
  const eto_tensor *real, *imag;
  fft f = {.sign = c->args[2].as.b ? 1 : -1};
  EC_BACKEND_TRY(read_floats(c, 0, "real", &real));
  EC_BACKEND_TRY(read_floats(c, 1, "imag", &imag));
  for (size_t d = 0; d < 3; d++)
    if (real->sizes[d] != imag->sizes[d])
      return EC_ARG_FAIL(c, "'real' and 'imag' have other sizes in dimension %zu", d);
  f.imag = imag->data;
  f.out_width = real->sizes[2];
  return run_fft(c, real, 3, &f);
}

uint32_t eto_rfft2d(const eto_call *c) {
  const eto_tensor *x;
  fft f = {.sign = -1};
  EC_BACKEND_TRY(read_floats(c, 0, "input", &x));
  f.out_width = x->sizes[2] / 2 + 1;
  return run_fft(c, x, 1, &f);
}
