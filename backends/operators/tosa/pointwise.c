/* Operators on single elements: blocks of int64_t. */
#include <math.h>
#include <string.h>

#include "operators.h"

enum { GRAIN = 4096, MAX_SHIFT = 63 };

typedef struct pointwise pointwise;

/* A function of blocks. `b` is NULL for unary ones. */
typedef void block_fn(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                      int64_t *out);

struct pointwise {
  const eto_tensor *a, *b, *out;
  block_fn *fn;
  int64_t parameters[4];
  const int64_t *table;
  int64_t steps_a[ETO_RANK], steps_b[ETO_RANK]; /* of broadcast inputs */
  int64_t row;                                  /* elements of out's last dimension */
};

/* ---- unary ----------------------------------------------------------------------------------- */

static void run_unary(void *user, size_t begin, size_t end) {
  const pointwise *p = user;
  int64_t in[ETO_BLOCK], out[ETO_BLOCK];
  for (int64_t at = (int64_t)begin; at < (int64_t)end; at += ETO_BLOCK) {
    const int64_t left = (int64_t)end - at, n = left < ETO_BLOCK ? left : ETO_BLOCK;
    eto_load(p->a, at, n, false, in);
    p->fn(p, in, NULL, n, out);
    eto_store(p->out, at, n, out);
  }
}

static uint32_t apply_unary(const eto_call *c, size_t out, pointwise *p) {
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", ETO_INTEGERS, -1, &p->a));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, out, ETO_INTEGERS, p->a->rank, p->a->sizes, &p->out));
  c->host->parallel_for(c->call, (size_t)ec_arg_count(p->a), GRAIN, run_unary, p);
  return EC_BACKEND_OK;
}

static void negate_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                         int64_t *out) {
  (void)b;
  const int64_t zero = eto_add(p->parameters[0], p->parameters[1]);
  for (int64_t i = 0; i < n; i++)
    out[i] = eto_clip(eto_subtract(zero, a[i]), p->parameters[2], p->parameters[3]);
}

uint32_t eto_negate(const eto_call *c) {
  pointwise p = {.fn = negate_block};
  const int32_t dtype = c->args[3].as.tensor.dtype;
  EC_BACKEND_TRY(eto_first(c, 1, "input_zp", &p.parameters[0]));
  EC_BACKEND_TRY(eto_first(c, 2, "output_zp", &p.parameters[1]));
  p.parameters[2] = eto_least(dtype);
  p.parameters[3] = eto_most(dtype);
  return apply_unary(c, 3, &p);
}

static void clz_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                      int64_t *out) {
  (void)b;
  const int bits = 8 * (int)ec_backend_dtype_size(p->a->dtype);
  for (int64_t i = 0; i < n; i++) {
    const uint64_t x = (uint64_t)a[i] << (64 - bits);
    out[i] = x ? __builtin_clzll(x) : bits;
  }
}

uint32_t eto_clz(const eto_call *c) {
  pointwise p = {.fn = clz_block};
  return apply_unary(c, 1, &p);
}

static void table8_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                         int64_t *out) {
  (void)b;
  for (int64_t i = 0; i < n; i++) out[i] = p->table[a[i] + 128];
}

static void table16_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                          int64_t *out) {
  (void)b;
  for (int64_t i = 0; i < n; i++) {
    const int64_t *entry = &p->table[(a[i] >> 7) + 256];
    out[i] = entry[0] * 128 + (entry[1] - entry[0]) * (a[i] & 127);
  }
}

uint32_t eto_table(const eto_call *c) {
  const eto_tensor *table;
  int64_t entries[513];
  pointwise p = {.table = entries};
  const int32_t dtype = c->args[0].as.tensor.dtype;
  const int64_t needed = dtype == EC_DTYPE_INT16 ? 513 : 256;
  p.fn = dtype == EC_DTYPE_INT16 ? table16_block : table8_block;
  if (dtype != EC_DTYPE_INT8 && dtype != EC_DTYPE_INT16)
    return EC_ARG_FAIL(c, "'input' has dtype %d, expected int8 or int16", dtype);
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "table", ETO_INTEGERS, -1, &table));
  if (ec_arg_count(table) != needed || ec_backend_dtype_size(table->dtype) > 2)
    return EC_ARG_FAIL(c, "'table' has %lld entries of dtype %d, expected %lld of int8 or int16",
                       (long long)ec_arg_count(table), table->dtype, (long long)needed);
  eto_load(table, 0, needed, false, entries);
  return apply_unary(c, 2, &p);
}

/* ---- float32 to integers --------------------------------------------------------------------- */

static void run_cast(void *user, size_t begin, size_t end) {
  const pointwise *p = user;
  const float *in = p->a->data;
  for (int64_t at = (int64_t)begin; at < (int64_t)end; at++) {
    const double x = nearbyint((double)in[at]);
    const int64_t least = p->parameters[0], most = p->parameters[1];
    int64_t out = 0;
    if (x >= (double)most) out = most;
    else if (x <= (double)least) out = least;
    else if (!isnan(x)) out = (int64_t)x;
    eto_store(p->out, at, 1, &out);
  }
}

uint32_t eto_cast(const eto_call *c) {
  pointwise p = {0};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", ETO_NUMBERS, -1, &p.a));
  if (p.a->dtype != EC_DTYPE_FLOAT32)
    return EC_ARG_FAIL(c, "'input' has dtype %d, expected float32", p.a->dtype);
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 1, ETO_INTEGERS, p.a->rank, p.a->sizes, &p.out));
  p.parameters[0] = eto_least(p.out->dtype);
  p.parameters[1] = eto_most(p.out->dtype);
  c->host->parallel_for(c->call, (size_t)ec_arg_count(p.a), GRAIN, run_cast, &p);
  return EC_BACKEND_OK;
}

/* ---- binary ---------------------------------------------------------------------------------- */

/* Sets the steps of an input in out's dimensions: 0 where it is broadcast. */
static void find_steps(const eto_tensor *t, int64_t steps[ETO_RANK]) {
  int64_t step = 1;
  for (size_t d = t->rank; d-- > 0;) {
    steps[d] = t->sizes[d] == 1 ? 0 : step;
    step *= t->sizes[d];
  }
}

/* Loads elements of an input that are one after another, or all the same. */
static void load_row(const eto_tensor *t, int64_t at, int64_t step, int64_t n, int64_t *out) {
  eto_load(t, at, step ? n : 1, false, out);
  for (int64_t i = 1; !step && i < n; i++) out[i] = out[0];
}

static void run_rows(void *user, size_t begin, size_t end) {
  const pointwise *p = user;
  const size_t last = p->out->rank - 1u;
  int64_t a[ETO_BLOCK], b[ETO_BLOCK], out[ETO_BLOCK];
  for (size_t row = begin; row < end; row++) {
    int64_t at_a = 0, at_b = 0, rest = (int64_t)row;
    for (size_t d = last; d-- > 0;) {
      const int64_t index = rest % p->out->sizes[d];
      rest /= p->out->sizes[d];
      at_a += index * p->steps_a[d];
      at_b += index * p->steps_b[d];
    }
    for (int64_t at = 0; at < p->row; at += ETO_BLOCK) {
      const int64_t n = p->row - at < ETO_BLOCK ? p->row - at : ETO_BLOCK;
      load_row(p->a, at_a + at * p->steps_a[last], p->steps_a[last], n, a);
      load_row(p->b, at_b + at * p->steps_b[last], p->steps_b[last], n, b);
      p->fn(p, a, b, n, out);
      eto_store(p->out, (int64_t)row * p->row + at, n, out);
    }
  }
}

/* Fails unless two shapes of one rank broadcast; sets the result's. */
static uint32_t broadcast(const eto_call *c, const eto_tensor *a, const eto_tensor *b,
                          int64_t sizes[ETO_RANK]) {
  if (a->rank != b->rank)
    return EC_ARG_FAIL(c, "the inputs have %u and %u dimensions, expected the same", a->rank,
                       b->rank);
  for (size_t d = 0; d < a->rank; d++) {
    if (a->sizes[d] != b->sizes[d] && a->sizes[d] != 1 && b->sizes[d] != 1)
      return EC_ARG_FAIL(c, "dimension %zu has %lld and %lld elements, which do not broadcast", d,
                         (long long)a->sizes[d], (long long)b->sizes[d]);
    sizes[d] = a->sizes[d] == 1 ? b->sizes[d] : a->sizes[d];
  }
  return EC_BACKEND_OK;
}

static uint32_t apply_binary(const eto_call *c, size_t out, pointwise *p) {
  int64_t sizes[ETO_RANK];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input1", ETO_INTEGERS, -1, &p->a));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "input2", ETO_INTEGERS, -1, &p->b));
  EC_BACKEND_TRY(broadcast(c, p->a, p->b, sizes));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, out, ETO_INTEGERS, p->a->rank, sizes, &p->out));
  const int64_t count = ec_arg_count(p->out);
  if (!count) return EC_BACKEND_OK;
  if (!p->out->rank) {
    int64_t a, b, result;
    eto_load(p->a, 0, 1, false, &a);
    eto_load(p->b, 0, 1, false, &b);
    p->fn(p, &a, &b, 1, &result);
    eto_store(p->out, 0, 1, &result);
    return EC_BACKEND_OK;
  }
  find_steps(p->a, p->steps_a);
  find_steps(p->b, p->steps_b);
  p->row = p->out->sizes[p->out->rank - 1u];
  const size_t grain = (size_t)(GRAIN / p->row) + 1;
  c->host->parallel_for(c->call, (size_t)(count / p->row), grain, run_rows, p);
  return EC_BACKEND_OK;
}

static void mul_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                      int64_t *out) {
  const int64_t shift = p->parameters[0], round = shift ? INT64_C(1) << (shift - 1) : 0;
  for (int64_t i = 0; i < n; i++) out[i] = eto_add(eto_multiply(a[i], b[i]), round) >> shift;
}

uint32_t eto_mul(const eto_call *c) {
  pointwise p = {.fn = mul_block};
  EC_BACKEND_TRY(eto_first(c, 2, "shift", &p.parameters[0]));
  if (p.parameters[0] < 0 || p.parameters[0] > MAX_SHIFT)
    return EC_ARG_FAIL(c, "'shift' is %lld, expected 0 to %d", (long long)p.parameters[0],
                       MAX_SHIFT);
  return apply_binary(c, 3, &p);
}

static void right_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                        int64_t *out) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t shift = eto_clip(b[i], 0, MAX_SHIFT);
    out[i] = a[i] >> shift;
    if (p->parameters[0] && shift > 0) out[i] += a[i] >> (shift - 1) & 1;
  }
}

uint32_t eto_right_shift(const eto_call *c) {
  pointwise p = {.fn = right_block, .parameters = {c->args[2].as.b}};
  return apply_binary(c, 3, &p);
}

static void left_logical_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                               int64_t *out) {
  (void)p;
  for (int64_t i = 0; i < n; i++)
    out[i] = b[i] < 0 || b[i] > MAX_SHIFT ? 0 : (int64_t)((uint64_t)a[i] << b[i]);
}

uint32_t eto_logical_left_shift(const eto_call *c) {
  pointwise p = {.fn = left_logical_block};
  return apply_binary(c, 2, &p);
}

static void right_logical_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                                int64_t *out) {
  const int unused = 64 - 8 * (int)ec_backend_dtype_size(p->a->dtype);
  for (int64_t i = 0; i < n; i++) {
    const uint64_t bits = (uint64_t)a[i] << unused >> unused;
    out[i] = b[i] < 0 || b[i] > MAX_SHIFT ? 0 : (int64_t)(bits >> b[i]);
  }
}

uint32_t eto_logical_right_shift(const eto_call *c) {
  pointwise p = {.fn = right_logical_block};
  return apply_binary(c, 2, &p);
}

/* The results of a division by zero and of the only quotient that does not fit are not defined. */
static void divide_block(const pointwise *p, const int64_t *a, const int64_t *b, int64_t n,
                         int64_t *out) {
  (void)p;
  for (int64_t i = 0; i < n; i++)
    out[i] = b[i] == 0 ? 0 : b[i] == -1 ? eto_multiply(a[i], -1) : a[i] / b[i];
}

uint32_t eto_intdiv(const eto_call *c) {
  pointwise p = {.fn = divide_block};
  return apply_binary(c, 2, &p);
}
