/* Rotary position embeddings of an input [1, positions, heads, features]. */
#include "rope.h"

#include "quantize.h"

typedef struct rope {
  const cad_tensor *in, *pos, *out; /* pos NULL: position i is row i of the tables */
  const float *sines, *cosines;     /* [rows, half] */
  float *x;
  int64_t positions, heads, half, rows;
  int64_t pair, step; /* distances of a pair's elements, and of neighbouring pairs */
  float scale;
  cad_quantizer q;
  bool quantizes;
} rope;

/* Returns the row of a position in the tables. */
static int64_t rope_row(const rope *p, int64_t position) {
  if (!p->pos) return position;
  const int64_t row = p->pos->dtype == EC_DTYPE_INT32 ? ((const int32_t *)p->pos->data)[position]
                                                      : ((const int64_t *)p->pos->data)[position];
  return row < 0 ? row + p->rows : row;
}

/* Turns the pairs of one head. */
static void rope_turn(const rope *p, const float *sines, const float *cosines, float *x) {
  for (int64_t i = 0; i < p->half; i++) {
    float *a = x + i * p->step, *b = a + p->pair;
    const float first = *a * p->scale, second = *b * p->scale;
    *a = first * cosines[i] - second * sines[i];
    *b = first * sines[i] + second * cosines[i];
  }
}

static void rope_positions(void *user, size_t begin, size_t end) {
  const rope *p = user;
  const int64_t length = p->heads * p->half * 2;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    const int64_t row = rope_row(p, i) * p->half;
    float *x = p->x + i * length;
    for (int64_t head = 0; head < p->heads; head++)
      rope_turn(p, p->sines + row, p->cosines + row, x + head * p->half * 2);
    for (int64_t k = 0; p->quantizes && k < length; k++) x[k] = cad_quantize(&p->q, x[k]);
    cad_store(p->out, i * length, 1, length, x);
  }
}

/* Reads a table [rows, half], argument `i`. */
static uint32_t rope_table(const cad_call *c, size_t i, const char *name, const rope *p,
                           const float **data) {
  const cad_tensor *t;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, i, name, CAD_FLOAT, 2, &t));
  if (t->sizes[1] != p->half || t->sizes[0] < p->positions)
    return EC_ARG_FAIL(c, "'%s' is %lld x %lld, expected %lld or more x %lld", name,
                       (long long)t->sizes[0], (long long)t->sizes[1], (long long)p->positions,
                       (long long)p->half);
  *data = t->data;
  return EC_BACKEND_OK;
}

/* Reads the positions, argument 3: rows of both tables. */
static uint32_t rope_pos(const cad_call *c, rope *p) {
  const int64_t sines = c->args[1].as.tensor.sizes[0], cosines = c->args[2].as.tensor.sizes[0];
  if (sines != cosines)
    return EC_ARG_FAIL(c, "'sin_tensor' has %lld rows, 'cos_tensor' %lld", (long long)sines,
                       (long long)cosines);
  p->rows = sines;
  if (!cad_is_tensor(c, 3)) return EC_BACKEND_OK;
  EC_BACKEND_TRY(cad_vector(c, 3, "pos", EC_ARG_SET(EC_DTYPE_INT32) | EC_ARG_SET(EC_DTYPE_INT64),
                            p->positions, &p->pos));
  for (int64_t i = 0; i < p->positions; i++) {
    const int64_t row = rope_row(p, i);
    if (row < 0 || row >= p->rows)
      return EC_ARG_FAIL(c, "'pos' has row %lld at %lld, beyond %lld rows", (long long)row,
                         (long long)i, (long long)p->rows);
  }
  return EC_BACKEND_OK;
}

/* Reads the input and the tables; `halves`: a pair are the elements i and half + i. */
static uint32_t rope_read(const cad_call *c, bool halves, rope *p) {
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p->in));
  const int64_t *sizes = p->in->sizes;
  if ((p->in->rank != 4 && p->in->rank != 5) || sizes[0] != 1)
    return EC_ARG_FAIL(c, "'input' has %u dimensions and a batch of %lld, expected 4 or 5 and 1",
                       (unsigned)p->in->rank, p->in->rank ? (long long)sizes[0] : 0);
  const int64_t features = sizes[3] * (p->in->rank == 5 ? sizes[4] : 1);
  if (features % 2)
    return EC_ARG_FAIL(c, "'input' has %lld features, expected an even number",
                       (long long)features);
  p->positions = sizes[1];
  p->heads = sizes[2];
  p->half = features / 2;
  p->pair = halves ? p->half : 1;
  p->step = halves ? 1 : 2;
  EC_BACKEND_TRY(rope_table(c, 1, "sin_tensor", p, &p->sines));
  EC_BACKEND_TRY(rope_table(c, 2, "cos_tensor", p, &p->cosines));
  return rope_pos(c, p);
}

static uint32_t rope_run(const cad_call *c, float zero, rope *p) {
  EC_BACKEND_TRY(
      EC_ARG_OUTPUT(c, c->count - 1, EC_ARG_SET(p->in->dtype), p->in->rank, p->in->sizes, &p->out));
  if (!ec_arg_count(p->in)) return EC_BACKEND_OK;
  EC_BACKEND_TRY(cad_floats(c, p->in, zero, &p->x));
  EC_ARG_PARALLEL(c, p->positions, (double)p->heads * (double)p->half * 4, rope_positions, p);
  return EC_BACKEND_OK;
}

uint32_t cad_rope(const cad_call *c) {
  rope p = {.scale = 1};
  EC_BACKEND_TRY(rope_read(c, false, &p));
  return rope_run(c, 0, &p);
}

uint32_t cad_rope_halves(const cad_call *c) {
  rope p = {.scale = 1};
  EC_BACKEND_TRY(rope_read(c, true, &p));
  return rope_run(c, 0, &p);
}

uint32_t cad_quantized_rope_halves(const cad_call *c) {
  rope p = {.quantizes = true};
  double scale, out_scale;
  int32_t zero, out_zero;
  EC_BACKEND_TRY(rope_read(c, true, &p));
  EC_BACKEND_TRY(cad_scale(c, 4, "in_scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 5, "in_zero_point", &zero));
  EC_BACKEND_TRY(cad_scale(c, 6, "out_scale", &out_scale));
  EC_BACKEND_TRY(cad_int(c, 7, "out_zero_point", &out_zero));
  p.scale = (float)scale;
  p.q = cad_quantizer_of(1.0 / out_scale, out_zero, p.in->dtype);
  return rope_run(c, (float)zero, &p);
}
