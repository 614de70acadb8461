/* Calls of payloads that are not a single operator of the runtime. */
#include "special.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "../pack.h"
#include "fields.h"

enum { TEXT = 200 };

static const char *describe_node(const ecv_node *node, char text[TEXT]) {
  snprintf(text, TEXT, "node %u (%.120s)", (unsigned)node->number, node->name);
  return text;
}

static uint32_t check_count(ecv_graph *g, const ecv_node *node, uint32_t wanted) {
  char text[TEXT];
  if (node->args.count == wanted) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "%s has %u values, expected %u",
                         describe_node(node, text), (unsigned)node->args.count, (unsigned)wanted);
}

static int64_t argument(const ecv_node *node, uint32_t i) { return ec_fb_vec_i32(node->args, i); }

static uint32_t read_arguments(ecv_graph *g, const ecv_node *node, uint32_t count, int64_t *out) {
  for (uint32_t i = 0; i < count; i++) EC_BACKEND_TRY(ecv_value(g, argument(node, i), &out[i]));
  return EC_BACKEND_OK;
}

static ec_backend_node shown(const ecv_node *node) {
  return (ec_backend_node){node->number, node->name, 0};
}

uint32_t ecv_call_nothing(ecv_graph *g, const ecv_node *node) {
  (void)g;
  (void)node;
  return EC_BACKEND_OK;
}

/* A prepacked constant is not a call (graph.c); anything else is copied. */
uint32_t ecv_call_prepack(ecv_graph *g, const ecv_node *node) {
  int64_t from, to;
  const ect_tensor *t;
  EC_BACKEND_TRY(check_count(g, node, 2));
  EC_BACKEND_TRY(ecv_tensor(g, argument(node, 1), &to, &t));
  if (g->sources[argument(node, 1)] >= 0) return EC_BACKEND_OK;
  EC_BACKEND_TRY(ecv_tensor(g, argument(node, 0), &from, &t));
  const ec_backend_node name = shown(node);
  ect_add_copy(&g->program, from, to, &name);
  return EC_BACKEND_OK;
}

/* select_as_symint(x, dim, index): an element as a number. */
uint32_t ecv_call_select_number(ecv_graph *g, const ecv_node *node) {
  int64_t args[4];
  char text[TEXT];
  const ect_tensor *x;
  EC_BACKEND_TRY(check_count(g, node, 4));
  EC_BACKEND_TRY(ecv_tensor(g, argument(node, 0), &args[0], &x));
  ect_tensor element = *x;
  EC_BACKEND_TRY(read_arguments(g, node, 4, args));
  const ect_value *dim = ect_value_at(&g->program, args[1]);
  int64_t at = dim->kind == ECT_INT ? dim->as.i : 0;
  if (at < 0) at += element.rank;
  if (at < 0 || at >= element.rank)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "%s: dimension %d of a tensor of rank %u", describe_node(node, text),
                           (int)at, (unsigned)element.rank);
  element.rank--;
  for (uint32_t d = (uint32_t)at; d < element.rank; d++) element.sizes[d] = element.sizes[d + 1];
  const int64_t one = ect_add_like(&g->program, &element, element.dtype);
  const int64_t select[] = {args[0], args[1], args[2], one}, item[] = {one, args[3]};
  ect_add_call(&g->program, "aten::select_copy.int_out", select, 4, NULL);
  const ec_backend_node name = shown(node);
  ect_add_call(&g->program, "aten::_local_scalar_dense", item, 2, &name);
  return EC_BACKEND_OK;
}

/* True for None, and for bounds beyond float32: the exporter writes DBL_MAX for none. */
static bool is_unbounded(const ecv_graph *g, int64_t value) {
  const ect_value *v = ect_value_at(&g->program, value);
  return v->kind == ECT_NONE || (v->kind == ECT_DOUBLE && fabs(v->as.d) > (double)FLT_MAX);
}

/* conv_with_clamp(arguments of convolution, min, max). */
uint32_t ecv_call_clamped_convolution(ecv_graph *g, const ecv_node *node) {
  enum { CONVOLUTION = 9, ALL = 12 };
  int64_t args[ALL], result;
  char text[TEXT];
  const ect_tensor *out;
  EC_BACKEND_TRY(check_count(g, node, ALL));
  EC_BACKEND_TRY(read_arguments(g, node, ALL, args));
  EC_BACKEND_TRY(ecv_tensor(g, argument(node, ALL - 1), &result, &out));
  for (int i = CONVOLUTION; i < ALL - 1; i++)
    if (is_unbounded(g, args[i])) args[i] = ect_add_none(&g->program);
  const bool clamps = !is_unbounded(g, args[9]) || !is_unbounded(g, args[10]);
  const int64_t product = clamps ? ect_add_like(&g->program, out, out->dtype) : result;
  const ec_backend_node name = shown(node);
  EC_BACKEND_TRY(ect_pack_call(g->c.call, &g->program, "aten::convolution.out", args, CONVOLUTION,
                               &product, 1, clamps ? NULL : &name, describe_node(node, text)));
  const int64_t clamp[] = {product, args[9], args[10], result};
  if (clamps) ect_add_call(&g->program, "aten::clamp.out", clamp, 4, &name);
  return EC_BACKEND_OK;
}

/* max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode), without indices. */
uint32_t ecv_call_max_pool(ecv_graph *g, const ecv_node *node) {
  int64_t args[7], outs[2];
  char text[TEXT];
  const ect_tensor *out;
  EC_BACKEND_TRY(check_count(g, node, 7));
  EC_BACKEND_TRY(read_arguments(g, node, 6, args));
  EC_BACKEND_TRY(ecv_tensor(g, argument(node, 6), &outs[0], &out));
  outs[1] = ect_add_like(&g->program, out, EC_DTYPE_INT64);
  const ec_backend_node name = shown(node);
  return ect_pack_call(g->c.call, &g->program, "aten::max_pool2d_with_indices.out", args, 6, outs,
                       2, &name, describe_node(node, text));
}
