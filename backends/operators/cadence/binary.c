/* Sums and products of two quantised tensors, with broadcasting. */
#include "binary.h"

#include "quantize.h"

uint32_t cad_broadcast(const cad_call *c, const cad_tensor *a, const cad_tensor *b, size_t last,
                       size_t *rank, int64_t *sizes) {
  const size_t first = a->rank - last, second = b->rank - last;
  *rank = first > second ? first : second;
  for (size_t d = 0; d < *rank; d++) { /* from the last dimension */
    const int64_t x = d < first ? a->sizes[first - 1 - d] : 1;
    const int64_t y = d < second ? b->sizes[second - 1 - d] : 1;
    if (x != y && x != 1 && y != 1)
      return EC_ARG_FAIL(c,
                         "the inputs have %lld and %lld elements in dimension -%zu, which do not "
                         "broadcast",
                         (long long)x, (long long)y, d + last + 1);
    sizes[*rank - 1 - d] = x == 1 ? y : x;
  }
  return EC_BACKEND_OK;
}

int64_t cad_broadcast_index(const cad_tensor *t, size_t last, size_t rank, const int64_t *sizes,
                            int64_t at) {
  const size_t own = t->rank - last;
  int64_t index = 0;
  for (size_t d = 0; d < rank && d < own; d++) { /* from the last dimension */
    const int64_t place = at % sizes[rank - 1 - d];
    at /= sizes[rank - 1 - d];
    if (t->sizes[own - 1 - d] != 1) index += place * t->strides[own - 1 - d];
  }
  return index;
}

typedef struct binary {
  const cad_tensor *x, *y, *out;
  size_t rank;
  int64_t sizes[CAD_RANK];
  float x_zero, x_scale, y_zero, y_scale;
  bool multiplies;
  cad_quantizer q;
} binary;

/* Computes `n` elements of a row from the index `at`. */
static void binary_block(const binary *p, int64_t at, int64_t n) {
  float x[CAD_BLOCK], y[CAD_BLOCK];
  const size_t d = p->rank - 1;
  const int64_t x_step = p->rank && p->x->rank && p->x->sizes[p->x->rank - 1] == p->sizes[d];
  const int64_t y_step = p->rank && p->y->rank && p->y->sizes[p->y->rank - 1] == p->sizes[d];
  cad_load(p->x, cad_broadcast_index(p->x, 0, p->rank, p->sizes, at), x_step, n, p->x_zero, x);
  cad_load(p->y, cad_broadcast_index(p->y, 0, p->rank, p->sizes, at), y_step, n, p->y_zero, y);
  for (int64_t i = 0; i < n; i++) {
    const float a = x[i] * p->x_scale, b = y[i] * p->y_scale;
    x[i] = cad_quantize(&p->q, p->multiplies ? a * b : a + b);
  }
  cad_store(p->out, at, 1, n, x);
}

static void binary_range(void *user, size_t begin, size_t end) {
  const binary *p = user;
  const int64_t row = p->rank ? p->sizes[p->rank - 1] : 1;
  for (int64_t at = (int64_t)begin, n; at < (int64_t)end; at += n) {
    n = row - at % row; /* to the end of the row */
    if (n > CAD_BLOCK) n = CAD_BLOCK;
    if (n > (int64_t)end - at) n = (int64_t)end - at;
    binary_block(p, at, n);
  }
}

static uint32_t binary_run(const cad_call *c, bool multiplies) {
  binary p = {.multiplies = multiplies};
  double x_scale, y_scale, scale;
  int32_t x_zero, y_zero, zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "X", c->dtypes, -1, &p.x));
  EC_BACKEND_TRY(cad_scale(c, 1, "X_scale", &x_scale));
  EC_BACKEND_TRY(cad_int(c, 2, "X_zero_point", &x_zero));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 3, "Y", EC_ARG_SET(p.x->dtype), -1, &p.y));
  EC_BACKEND_TRY(cad_scale(c, 4, "Y_scale", &y_scale));
  EC_BACKEND_TRY(cad_int(c, 5, "Y_zero_point", &y_zero));
  EC_BACKEND_TRY(cad_scale(c, 6, "out_scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 7, "out_zero_point", &zero));
  EC_BACKEND_TRY(cad_broadcast(c, p.x, p.y, 0, &p.rank, p.sizes));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 8, EC_ARG_SET(p.x->dtype), p.rank, p.sizes, &p.out));
  p.x_scale = (float)x_scale, p.x_zero = (float)x_zero;
  p.y_scale = (float)y_scale, p.y_zero = (float)y_zero;
  p.q = cad_quantizer_of(1.0 / scale, zero, p.x->dtype);
  EC_ARG_PARALLEL(c, ec_arg_count(p.out), 4, binary_range, &p);
  return EC_BACKEND_OK;
}

uint32_t cad_quantized_add(const cad_call *c) { return binary_run(c, false); }
uint32_t cad_quantized_mul(const cad_call *c) { return binary_run(c, true); }
