/* Pooling. ATen's operators, which backends take at load, have equal paddings on both sides, of at
 * most half a window, and images with channels first. */
#include "pool.h"

#include "../translate.h"
#include "special.h"

enum { DIMS = 2 };

/* A window that ATen has, too. */
typedef struct window {
  int64_t kernel[DIMS], stride[DIMS], pad[DIMS];
} window;

/* ---- ATen ------------------------------------------------------------------------------------ */

static bool is_adaptive(const ect_node *n) {
  return n->kind == ETS_MAX_POOL2D_ADAPTIVE || n->kind == ETS_AVG_POOL2D_ADAPTIVE;
}

/* Reads attributes as a window of ATen's. Returns false if they are none. */
static bool read_window(const ect_graph *g, const ect_node *n, window *out) {
  if (is_adaptive(n)) return false;
  for (size_t i = 0; i < 3; i++)
    if (ect_number_count(ets_attribute(g, n, i)) != (i == 2 ? 2 * DIMS : DIMS)) return false;
  for (size_t d = 0; d < DIMS; d++) {
    out->kernel[d] = ets_attribute_at(g, n, 0, d);
    out->stride[d] = ets_attribute_at(g, n, 1, d);
    out->pad[d] = ets_attribute_at(g, n, 2, 2 * d);
    if (out->kernel[d] < 1 || out->stride[d] < 1 || out->pad[d] < 0 ||
        out->pad[d] > out->kernel[d] / 2 || out->pad[d] != ets_attribute_at(g, n, 2, 2 * d + 1))
      return false;
  }
  return true;
}

/* True for floats whose window ATen has: kernels and delegates made at load compute the same. */
static bool is_aten(const ect_graph *g, const ect_operand *x, const ect_operand *result,
                    const ect_node *n, window *out) {
  return x->dtype == ETS_FP32 && result->dtype == ETS_FP32 && x->rank == DIMS + 2 &&
         result->rank == DIMS + 2 && read_window(g, n, out);
}

/* Adds `op` between permutations. Its arguments begin with image and window, and `more` follow. */
static uint32_t call_aten(ect_graph *g, const ect_node *n, const char *op, const window *w,
                          const int64_t *more, size_t more_count, bool has_indices) {
  static const int64_t first[] = {0, 3, 1, 2}, last[] = {0, 2, 3, 1};
  ect_program *p = &g->program;
  int64_t x, args[8], outs[2];
  ect_operand *result;
  EC_BACKEND_TRY(ets_result(g, n, &result));
  const int64_t *s = result->sizes, sizes[] = {s[0], s[3], s[1], s[2]};
  EC_BACKEND_TRY(ets_tensor(g, n, 0, &x));
  EC_BACKEND_TRY(ets_permute(g, x, first, &args[0]));
  args[1] = ect_add_ints(p, w->kernel, DIMS);
  args[2] = ect_add_ints(p, w->stride, DIMS);
  args[3] = ect_add_ints(p, w->pad, DIMS);
  for (size_t i = 0; i < more_count; i++) args[4 + i] = more[i];
  outs[0] = ets_add_tensor(g, ETS_FP32, DIMS + 2, sizes);
  outs[1] = ets_add_tensor(g, ETS_INT64, DIMS + 2, sizes);
  EC_BACKEND_TRY(ect_call_op(g, op, args, 4 + more_count, outs, has_indices ? 2 : 1, NULL));
  const int64_t back[] = {outs[0], ect_add_ints(p, last, DIMS + 2)};
  return ets_call_op(g, n, "aten::permute_copy.out", back, 2);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Adds kernel, stride and pad: attributes, or inputs from `input` on. */
static uint32_t add_window(ect_graph *g, const ect_node *n, uint32_t input, int64_t *out) {
  for (uint32_t i = 0; i < 3; i++)
    if (is_adaptive(n)) EC_BACKEND_TRY(ets_shape(g, n, input + i, &out[i]));
    else out[i] = ets_list(g, n, i);
  return EC_BACKEND_OK;
}

uint32_t ets_call_avg_pool(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  ect_operand *result;
  window w;
  int64_t args[6];
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  EC_BACKEND_TRY(ets_result(g, n, &result));
  if (is_aten(g, x, result, n, &w)) {
    const int64_t no = ect_add_bool(&g->program, false); /* ceil_mode, count_include_pad */
    return call_aten(g, n, "aten::avg_pool2d.out", &w, (int64_t[]){no, no}, 2, false);
  }
  EC_BACKEND_TRY(ets_first_computed(g, n, &x, &args[0]));
  EC_BACKEND_TRY(ets_tensor(g, n, 1, &args[1]));
  EC_BACKEND_TRY(ets_tensor(g, n, 2, &args[2]));
  EC_BACKEND_TRY(add_window(g, n, 3, &args[3]));
  return ets_call_in(g, n, ets_computed_dtype(x->dtype), "tosa::avg_pool2d.out", args, 6);
}

uint32_t ets_call_max_pool(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  ect_operand *result;
  window w;
  int64_t args[5];
  const int64_t nan_mode = ets_attribute_at(g, n, n->kind == ETS_MAX_POOL2D ? 3 : 0, 0);
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  EC_BACKEND_TRY(ets_result(g, n, &result));
  if (nan_mode != ETS_NAN_IGNORED && is_aten(g, x, result, n, &w))
    return call_aten(g, n, "aten::max_pool2d_with_indices.out", &w, NULL, 0, true);
  EC_BACKEND_TRY(ets_first_computed(g, n, &x, &args[0]));
  EC_BACKEND_TRY(add_window(g, n, 1, &args[1]));
  args[4] = ect_add_int(&g->program, nan_mode);
  return ets_call_in(g, n, ets_computed_dtype(x->dtype), "tosa::max_pool2d.out", args, 5);
}
