/* Shapes of linear layers and matrix products, and their checks. */
#include "call.h"
#include "core/checked.h"
#include "nodes/graph.h"
#include "nodes/shapes.h"
#include "payload/values.h"

static const char *text_of(const ecx_shape *shape, char text[ECX_TEXT / 2]) {
  return ecx_shape_text(shape, text, ECX_TEXT / 2);
}

static uint32_t check_linear_filter(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                                    size_t *rows, size_t *columns) {
  const ecx_value *filter = ecx_in(g, n, 1);
  bool transposed = n->flags & XNN_FLAG_TRANSPOSE_WEIGHTS;
  char text[ECX_TEXT / 2];
  if (filter->shape.rank != 2)
    return REFUSE(c, n, "a filter of shape %s, expected a matrix", text_of(&filter->shape, text));
  *rows = filter->shape.dims[transposed];
  *columns = filter->shape.dims[!transposed];
  if (filter->scheme == ECX_PER_CHANNEL && filter->channel_dim != (transposed ? 1 : 0))
    return REFUSE(c, n, "scales along dimension %u of its filter, expected %d",
                  (unsigned)filter->channel_dim, transposed);
  if (ecx_dtypes[filter->dtype].bits < 8 && transposed)
    return REFUSE(c, n, "a transposed filter of %s", ecx_dtypes[filter->dtype].name);
  return ecx_check_per_token(c, n, ecx_in(g, n, 0), 1);
}

/* Checks a computed filter or bias. It is packed at run time, which supports floats of one
 * width. */
static uint32_t check_computed(const ecx_call *c, const ecx_graph *g, const ecx_node *n) {
  const ecx_value *in = ecx_in(g, n, 0), *filter = ecx_in(g, n, 1), *bias = ecx_in(g, n, 2);
  const unsigned dtype = ecx_dtypes[in->dtype].as;
  if (filter->data.at && (!bias || bias->data.at)) return EC_BACKEND_OK;
  if (filter->scheme != ECX_PLAIN || (bias && bias->scheme != ECX_PLAIN))
    return REFUSE(c, n, "its %s is not constant", filter->data.at ? "bias" : "filter");
  if (ecx_dtypes[filter->dtype].as == dtype && (!bias || ecx_dtypes[bias->dtype].as == dtype))
    return EC_BACKEND_OK;
  return REFUSE(c, n, "an input of %s with a filter of %s, not all of which is constant",
                ecx_dtypes[in->dtype].name, ecx_dtypes[filter->dtype].name);
}

uint32_t ecx_shape_linear(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                          ecx_shape *out) {
  const ecx_shape *in = &ecx_in(g, n, 0)->shape;
  const ecx_value *bias = ecx_in(g, n, 2);
  size_t rows = 0, columns = 0, count;
  char text[ECX_TEXT / 2];
  ECX_TRY(check_linear_filter(c, g, n, &rows, &columns));
  if (!rows || !columns || in->rank < 1 || in->dims[in->rank - 1] != columns)
    return REFUSE(c, n, "an input of shape %s, expected rows of %zu", text_of(in, text), columns);
  if (bias && (!ecx_shape_count(&bias->shape, &count) || count != rows))
    return REFUSE(c, n, "a bias of shape %s for %zu columns", text_of(&bias->shape, text), rows);
  *out = *in;
  out->dims[in->rank - 1] = rows;
  return check_computed(c, g, n);
}

/* Checks the scales: XNNPACK reads them for every matrix of a batch. */
static uint32_t check_matmul_scales(const ecx_call *c, const ecx_node *n, const ecx_value *b,
                                    bool transposed) {
  size_t channel_dim = b->shape.rank - (transposed ? 2 : 1), count = b->shape.dims[channel_dim];
  char text[ECX_TEXT / 2];
  for (size_t d = 0; d + 2 < b->shape.rank; d++) count *= b->shape.dims[d];
  if (b->channel_dim == channel_dim && b->scales.size / sizeof(float) >= count)
    return EC_BACKEND_OK;
  return REFUSE(c, n, "%zu scales along dimension %u of its second matrix %s, expected %zu",
                b->scales.size / sizeof(float), (unsigned)b->channel_dim, text_of(&b->shape, text),
                count);
}

uint32_t ecx_shape_matmul(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                          ecx_shape *out) {
  const ecx_shape *a = &ecx_in(g, n, 0)->shape, *b = &ecx_in(g, n, 1)->shape;
  const ecx_value *right = ecx_in(g, n, 1);
  bool transposed = n->flags & XNN_FLAG_TRANSPOSE_B;
  char left_text[ECX_TEXT / 2], right_text[ECX_TEXT / 2];
  bool fits = a->rank >= 2 && b->rank >= 2;
  out->rank = a->rank > b->rank ? a->rank : b->rank;
  fits = fits && a->dims[a->rank - 1] == b->dims[transposed ? b->rank - 1 : b->rank - 2];
  for (size_t d = 3; fits && d <= out->rank; d++) {
    size_t x = d <= a->rank ? a->dims[a->rank - d] : 1;
    size_t y = d <= b->rank ? b->dims[b->rank - d] : 1;
    fits = x == y || x == 1 || y == 1;
    out->dims[out->rank - d] = x == 1 ? y : x;
  }
  if (!fits)
    return REFUSE(c, n, "matrices of shapes %s and %s%s", text_of(a, left_text),
                  text_of(b, right_text), transposed ? " (transposed)" : "");
  if (right->scheme == ECX_PER_CHANNEL) ECX_TRY(check_matmul_scales(c, n, right, transposed));
  ECX_TRY(ecx_check_per_token(c, n, ecx_in(g, n, 0), 1));
  out->dims[out->rank - 2] = a->dims[a->rank - 2];
  out->dims[out->rank - 1] = b->dims[transposed ? b->rank - 2 : b->rank - 1];
  return EC_BACKEND_OK;
}

/* Queries [..., tokens, channels], keys [..., others, channels], values [..., others, width], a
 * scale per channel, a mask [tokens, others]. */
uint32_t ecx_shape_attention(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                             ecx_shape *out) {
  const ecx_shape *in[5];
  char q[ECX_TEXT / 4], k[ECX_TEXT / 4], v[ECX_TEXT / 4];
  for (unsigned i = 0; i < 5; i++) in[i] = &ecx_in(g, n, i)->shape;
  size_t rank = in[0]->rank;
  bool fits = rank >= 3 && in[1]->rank == rank && in[2]->rank == rank && in[3]->rank == 1 &&
              in[4]->rank == 2;
  for (size_t d = 0; fits && d + 2 < rank; d++)
    fits = in[0]->dims[d] == in[1]->dims[d] && in[0]->dims[d] == in[2]->dims[d];
  fits = fits && in[0]->dims[rank - 1] == in[1]->dims[rank - 1] &&
         in[1]->dims[rank - 2] == in[2]->dims[rank - 2] &&
         in[3]->dims[0] == in[0]->dims[rank - 1] && in[4]->dims[0] == in[0]->dims[rank - 2] &&
         in[4]->dims[1] == in[1]->dims[rank - 2];
  if (!fits)
    return REFUSE(c, n, "queries %s, keys %s and values %s, or their scale and mask, do not fit",
                  ecx_shape_text(in[0], q, sizeof q), ecx_shape_text(in[1], k, sizeof k),
                  ecx_shape_text(in[2], v, sizeof v));
  *out = *in[0];
  out->dims[rank - 1] = in[2]->dims[rank - 1];
  return EC_BACKEND_OK;
}
