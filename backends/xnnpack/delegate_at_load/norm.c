/* Batch norm: folded into the convolution before it, else a product and a sum. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "delegate_at_load/delegation.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/weights.h"
#include "nodes/kinds.h"
#include "payload/schema.h"

/* x * scale + shift for each channel. */
typedef struct normalization {
  const ec_backend_value *x, *out;
  const float *weight, *bias, *mean, *var; /* weight, bias: or NULL */
  double eps;
  size_t channels;
  bool is_shared; /* all of them are in the program's files */
} normalization;

static bool read_row(const ec_backend_kernel_call *call, size_t i, normalization *n,
                     const float **out) {
  const ec_backend_value *v = ecx_arg_value(call, i);
  *out = NULL;
  if (!v) return i < 3;
  if (!ecx_is_constant(v) || v->tensor.rank != 1 || ecx_elements(v) != n->channels) return false;
  n->is_shared = n->is_shared && v->is_shared;
  *out = v->tensor.data;
  return true;
}

static const char *read_normalization(const ec_backend_kernel_call *call, normalization *n) {
  *n = (normalization){.x = ecx_arg_value(call, 0), .out = ecx_arg_value(call, 7),
                       .is_shared = true};
  if (n->x->tensor.rank < 2 || n->x->tensor.rank > 4) return "its number of dimensions";
  n->channels = (size_t)n->x->tensor.sizes[1];
  if (!read_row(call, 1, n, &n->weight) || !read_row(call, 2, n, &n->bias) ||
      !read_row(call, 3, n, &n->mean) || !read_row(call, 4, n, &n->var) || !n->mean || !n->var)
    return "its parameters are computed";
  if (!ecx_arg_number(call, 6, &n->eps)) return "its eps";
  if (!ecx_arg_value(call, 8)->is_unread || !ecx_arg_value(call, 9)->is_unread)
    return "its statistics are read";
  return ecx_has_shape(n->out, n->x->tensor.rank, n->x->tensor.sizes) ? NULL : "its shape";
}

/* Computes scale and shift, whose memory belongs to the draft. */
static bool compute_rows(ecx_delegation *b, const normalization *n, float **scale, float **shift) {
  *scale = ecx_draft_alloc(b->draft, n->channels * sizeof **scale + ECX_EXTRA);
  *shift = ecx_draft_alloc(b->draft, n->channels * sizeof **shift + ECX_EXTRA);
  for (size_t c = 0; *scale && *shift && c < n->channels; c++) {
    const double factor = (n->weight ? n->weight[c] : 1) / sqrt((double)n->var[c] + n->eps);
    (*scale)[c] = (float)factor;
    (*shift)[c] = (float)((n->bias ? n->bias[c] : 0) - n->mean[c] * factor);
  }
  return *scale && *shift;
}

/* ---- into a convolution ---------------------------------------------------------------------- */

/* Returns the convolution whose result only this call reads; NULL: there is none. */
static ecx_draft_node *find_convolution(const ecx_delegation *b, const normalization *n) {
  const ecx_entry *e = &b->entries[n->x->number];
  const uint32_t id = e->ids[ECX_FORM_LAST];
  if (b->draft->failed || e->places != 2 || id == ECX_NONE || e->ids[ECX_FORM_PLAIN] != ECX_NONE)
    return NULL;
  const uint32_t producer = b->draft->values[id].producer;
  if (producer == ECX_NONE) return NULL;
  ecx_draft_node *node = &b->draft->nodes[producer];
  const bool is_convolution = node->kind == ECX_KIND_Conv2d ||
                              node->kind == ECX_KIND_DepthwiseConv2d ||
                              node->kind == ECX_KIND_ConvTranspose2d;
  if (!is_convolution || node->has_bounds) return NULL;
  ecx_settle_weights(b->draft, node);
  return b->draft->failed ? NULL : node;
}

static const ecx_data *constant_of(const ecx_delegation *b, uint32_t id) {
  return &b->draft->data[b->draft->values[id].constant];
}

/* Names what a constant becomes, after all addresses that it is computed from. */
static char *make_key(ecx_delegation *b, const normalization *n, const ecx_data *data) {
  enum { KEY = 256 };
  if (!n->is_shared || (data && !data->key)) return NULL;
  char *key = ecx_draft_alloc(b->draft, KEY);
  if (key)
    snprintf(key, KEY, "%s.norm.%" PRIxPTR ".%" PRIxPTR ".%" PRIxPTR ".%" PRIxPTR ".%a",
             data ? data->key : "none", (uintptr_t)n->weight, (uintptr_t)n->bias,
             (uintptr_t)n->mean, (uintptr_t)n->var, n->eps);
  return key;
}

static uint32_t scale_filter(ecx_delegation *b, const normalization *n, uint32_t id,
                             bool is_depthwise, const float *scale) {
  const ecx_shape shape = b->draft->values[id].shape;
  const ecx_data from = *constant_of(b, id);
  const size_t count = from.size / sizeof(float), each = count / n->channels;
  float *to = ecx_draft_alloc(b->draft, from.size + ECX_EXTRA);
  const float *at = from.at;
  for (size_t i = 0; to && i < count; i++)
    to[i] = at[i] * scale[is_depthwise ? i % n->channels : i / each];
  const ecx_data data = {.at = to, .size = from.size, .key = make_key(b, n, &from)};
  return to ? ecx_draft_constant(b->draft, &shape, &data) : ECX_NONE;
}

static uint32_t add_row(ecx_delegation *b, const normalization *n, const float *row,
                        const char *key, size_t ones) {
  ecx_shape shape = {.rank = 1 + ones, .dims = {n->channels, 1, 1}};
  const ecx_data data = {.at = row, .size = n->channels * sizeof *row, .key = key};
  return ecx_draft_constant(b->draft, &shape, &data);
}

static void fold_into(ecx_delegation *b, const normalization *n, ecx_draft_node *node, float *scale,
                      float *shift) {
  const ecx_layout *layout = ecx_kinds[node->kind].layout;
  const uint32_t old = node->fields[layout->in[2]];
  const bool has_bias = old != XNN_INVALID_VALUE_ID;
  const ecx_data bias = has_bias ? *constant_of(b, old) : (ecx_data){0};
  for (size_t c = 0; has_bias && c < n->channels; c++)
    shift[c] += ((const float *)bias.at)[c] * scale[c];
  const uint32_t filter = scale_filter(b, n, node->fields[layout->in[1]],
                                       node->kind == ECX_KIND_DepthwiseConv2d, scale);
  const uint32_t row = add_row(b, n, shift, make_key(b, n, has_bias ? &bias : NULL), 0);
  if (b->draft->failed) return;
  node->fields[layout->in[1]] = filter;
  node->fields[layout->in[2]] = row;
  ecx_bind(b, n->out, ECX_FORM_LAST, b->entries[n->x->number].ids[ECX_FORM_LAST]);
}

/* ---- by itself ------------------------------------------------------------------------------- */

static void add_product_and_sum(ecx_delegation *b, const normalization *n, const float *scale,
                                const float *shift) {
  ecx_prepare(b, n->x);
  const ecx_form form = ecx_best_form(b, n->x);
  const size_t ones = form == ECX_FORM_LAST ? 0 : n->x->tensor.rank - 2u;
  const ecx_shape shape = ecx_shape_of(n->x, form);
  const uint32_t product = ecx_draft_result(b->draft, &shape);
  const uint32_t factors[2] = {ecx_read(b, n->x, form), add_row(b, n, scale, NULL, ones)};
  ecx_draft_add(b->draft, ECX_KIND_Multiply, factors, 2, product);
  const uint32_t terms[2] = {product, add_row(b, n, shift, NULL, ones)};
  ecx_draft_add(b->draft, ECX_KIND_Add, terms, 2, ecx_write(b, n->out, form));
}

const char *ecx_delegate_batch_norm(ecx_delegation *b, const ecx_operator *row,
                                    const ec_backend_kernel_call *call) {
  (void)row;
  normalization n;
  float *scale, *shift;
  const char *reason = read_normalization(call, &n);
  if (reason || !b || !compute_rows(b, &n, &scale, &shift)) return reason;
  ecx_draft_node *convolution = find_convolution(b, &n);
  if (convolution) fold_into(b, &n, convolution, scale, shift);
  else add_product_and_sum(b, &n, scale, shift);
  return NULL;
}
