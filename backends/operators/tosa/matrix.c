/* Products of matrices of int8 and int16: exact sums. */
#include "dot.h"
#include "operators.h"

typedef struct product {
  const int16_t *a, *b;
  int16_t *turned; /* b with its last two dimensions swapped */
  const eto_tensor *out;
  int64_t rows, inner, columns, block;
} product;

static void turn(const product *p, int64_t batch) {
  for (int64_t n = 0; n < batch; n++)
    for (int64_t i = 0; i < p->inner; i++)
      for (int64_t j = 0; j < p->columns; j++)
        p->turned[(n * p->columns + j) * p->inner + i] = p->b[(n * p->inner + i) * p->columns + j];
}

static void run_product(void *user, size_t begin, size_t end) {
  const product *p = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int16_t *a = p->a + row * p->inner;
    const int16_t *b = p->turned + row / p->rows * p->columns * p->inner;
    for (int64_t j = 0; j < p->columns; j++) {
      const int64_t sum = eto_dot(a, b + j * p->inner, p->inner, p->block);
      eto_store(p->out, row * p->columns + j, 1, &sum);
    }
  }
}

uint32_t eto_matmul(const eto_call *c) {
  const eto_tensor *a, *b;
  product p = {0};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "a", ETO_INTEGERS, 3, &a));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "b", ETO_INTEGERS, 3, &b));
  if (a->sizes[0] != b->sizes[0] || a->sizes[2] != b->sizes[1])
    return EC_ARG_FAIL(c, "'a' is [%lld, ?, %lld], 'b' [%lld, %lld, ?]", (long long)a->sizes[0],
                       (long long)a->sizes[2], (long long)b->sizes[0], (long long)b->sizes[1]);
  const int64_t batch = a->sizes[0];
  p.rows = a->sizes[1];
  p.inner = a->sizes[2];
  p.columns = b->sizes[2];
  p.block = eto_dot_block(a, b);
  const int64_t sizes[] = {batch, p.rows, p.columns};
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 4, ETO_INTEGERS, 3, sizes, &p.out));
  EC_BACKEND_TRY(eto_check_sums(c, a, p.out));
  if (!ec_arg_count(p.out)) return EC_BACKEND_OK;
  EC_BACKEND_TRY(eto_centre(c, a, 2, "a", &p.a));
  EC_BACKEND_TRY(eto_centre(c, b, 3, "b", &p.b));
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, ec_arg_count(b), sizeof *p.turned, &p.turned));
  turn(&p, batch);
  c->host->parallel_for(c->call, (size_t)(batch * p.rows), 1, run_product, &p);
  return EC_BACKEND_OK;
}
