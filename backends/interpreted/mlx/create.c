/* Nodes without a tensor to read. */
#include "special.h"

uint32_t emx_call_arange(const emx_call *c) {
  int64_t args[3], start, stop, step;
  bool start_is_literal, stop_is_literal, step_is_literal;
  ect_tensor t = {.rank = 1, .sizes = {-1}};
  EC_BACKEND_TRY(emx_int(c, "start", &args[0], &start, &start_is_literal));
  EC_BACKEND_TRY(emx_int(c, "stop", &args[1], &stop, &stop_is_literal));
  EC_BACKEND_TRY(emx_int(c, "step", &args[2], &step, &step_is_literal));
  EC_BACKEND_TRY(emx_scalar_type(c, EC_DTYPE_INT32, &t.dtype));
  t.is_dynamic = !(start_is_literal && stop_is_literal && step_is_literal);
  int64_t range = 0;
  if (step_is_literal && !step) return EMX_INVALID(c, "'step' is 0");
  const bool is_known = step_is_literal && step > 0 && start_is_literal &&
                        (stop_is_literal || stop >= 0) &&
                        !__builtin_sub_overflow(stop, start, &range);
  if (is_known) t.sizes[0] = range > 0 ? range / step + (range % step != 0) : 0;
  return emx_finish(c, "aten::arange.start_out", args, 3, &t);
}

/* Fills a type with the sizes of a list. */
static uint32_t read_shape(const emx_call *c, int64_t *value, ect_tensor *t) {
  bool is_literal;
  EC_BACKEND_TRY(emx_ints(c, "shape", value, t->sizes, &t->rank, &is_literal));
  t->is_dynamic = !is_literal;
  for (uint32_t d = 0; d < t->rank; d++)
    if (is_literal && t->sizes[d] < 0)
      return EMX_INVALID(c, "'shape' has %lld", (long long)t->sizes[d]);
  return EC_BACKEND_OK;
}

uint32_t emx_call_full(const emx_call *c) {
  const uint32_t v = emx_find(c, "v");
  int64_t args[2];
  ect_tensor t = {0};
  EC_BACKEND_TRY(read_shape(c, &args[0], &t));
  EC_BACKEND_TRY(emx_scalar_type(c, EC_DTYPE_UINT8, &t.dtype));
  if (v == ECT_ABSENT) return EMX_INVALID(c, "no field 'v'");
  EC_BACKEND_TRY(ect_use(c->g, v, &args[1]));
  return emx_finish(c, "aten::full.out", args, 2, &t);
}

/* Ones on and below a diagonal. */
uint32_t emx_call_tri(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t sizes[2], args[2], k;
  bool rows_are_literal, columns_are_literal;
  ect_tensor t = {.rank = 2};
  EC_BACKEND_TRY(emx_int(c, "n", &sizes[0], &t.sizes[0], &rows_are_literal));
  EC_BACKEND_TRY(emx_int(c, "m", &sizes[1], &t.sizes[1], &columns_are_literal));
  EC_BACKEND_TRY(emx_scalar_type(c, EC_DTYPE_UINT8, &t.dtype));
  EC_BACKEND_TRY(emx_literal(c, "k", 0, &k));
  t.is_dynamic = !(rows_are_literal && columns_are_literal);
  const int64_t shape = ect_add_list(p, ECT_INT_LIST, sizes, 2);
  const ect_tensor ones = emx_like(&t, emx_work(t.dtype));
  EC_BACKEND_TRY(emx_helper(c, "aten::ones.out", &shape, 1, &ones, &args[0]));
  args[1] = ect_add_int(p, k);
  return emx_finish(c, "aten::tril.out", args, 2, &t);
}

/* Fails when it runs: a branch that samples may never do. */
uint32_t emx_call_random_bits(const emx_call *c) {
  int64_t args[2], width;
  ect_tensor t = {0};
  EC_BACKEND_TRY(read_shape(c, &args[0], &t));
  EC_BACKEND_TRY(emx_literal(c, "width", 4, &width));
  if (width != 1 && width != 2 && width != 4)
    return EMX_INVALID(c, "%lld bytes, expected 1, 2 or 4", (long long)width);
  t.dtype = width == 1 ? EC_DTYPE_UINT8 : width == 2 ? EC_DTYPE_UINT16 : EC_DTYPE_UINT32;
  args[1] = ect_add_int(&c->g->program, width);
  return emx_finish(c, "mlx::random_bits.out", args, 2, &t);
}
