/* Shapes of convolutions, pooling and resizing (inputs are batch, height, width, channels), and
 * their checks: XNNPACK itself does not check the number of an input's channels. */
#include "nodes/shapes_window.h"

#include "call.h"
#include "core/checked.h"
#include "nodes/graph.h"
#include "nodes/shapes.h"
#include "payload/values.h"

/* Limits beyond the size of any model. They keep every sum and product, here and in XNNPACK, within
 * 64 bits, and the size of packed filters of a group, which XNNPACK computes in 32 bits. In
 * resizing, they keep positions, which XNNPACK computes in float32, inside the image. */
enum {
  LARGEST = 1 << 24,
  LARGEST_WINDOW = 1 << 16,
  LARGEST_RESIZED = 1 << 22,
  PACKED_CHANNELS = 64, /* maximum multiple to which input channels are packed */
  PACKED_ELEMENT = 4    /* maximum bytes */
};
#define MAX_PACKED_BYTES ((size_t)1 << 31)
/* Elements under all positions of a window: XNNPACK stores an address for each. */
#define MAX_POSITIONS ((size_t)1 << 29)

/* A window along height or width. */
typedef struct window {
  const char *name;
  size_t size, stride, dilation, before, after;
} window;

static const char *text_of(const ecx_shape *shape, char text[ECX_TEXT / 2]) {
  return ecx_shape_text(shape, text, ECX_TEXT / 2);
}

static uint32_t check_rank(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                           const ecx_shape **in) {
  char text[ECX_TEXT / 2];
  *in = &ecx_in(g, n, 0)->shape;
  if ((*in)->rank == 4) return EC_BACKEND_OK;
  return REFUSE(c, n, "an input of shape %s, expected batch, height, width, channels",
                text_of(*in, text));
}

static uint32_t check_window(const ecx_call *c, const ecx_node *n, const window *w) {
  const size_t most = LARGEST_WINDOW;
  if (w->size == 0 || w->stride == 0 || w->dilation == 0 || w->size > most || w->stride > most ||
      w->dilation > most || w->before > most || w->after > most)
    return REFUSE(c, n, "along its %s: a window of %zu, stride %zu, dilation %zu, padding %zu and "
                  "%zu", w->name, w->size, w->stride, w->dilation, w->before, w->after);
  return EC_BACKEND_OK;
}

/* Returns the elements from the first to the last one of a window. */
static size_t extent_of(const window *w) { return (w->size - 1) * w->dilation + 1; }

/* Computes the number of positions of the window in `in` elements. */
static uint32_t slide(const ecx_call *c, const ecx_node *n, const window *w, size_t in,
                      size_t *out) {
  ECX_TRY(check_window(c, n, w));
  size_t extent = extent_of(w), padded = in + w->before + w->after;
  if (n->flags & XNN_FLAG_TENSORFLOW_SAME_PADDING) {
    if (w->before || w->after)
      return REFUSE(c, n, "explicit padding together with padding to the same size");
    *out = (in + w->stride - 1) / w->stride;
    return EC_BACKEND_OK;
  }
  if (padded < extent)
    return REFUSE(c, n, "a window over %zu elements does not fit into a %s of %zu", extent, w->name,
                  padded);
  *out = (padded - extent) / w->stride + 1;
  return EC_BACKEND_OK;
}

/* XNNPACK refuses padding to the same size with a stride larger than the window. */
static bool skips(const ecx_node *n, const window w[2]) {
  bool skips = false;
  for (unsigned d = 0; d < 2; d++)
    skips = skips || w[d].stride > extent_of(&w[d]);
  return skips && n->flags & XNN_FLAG_TENSORFLOW_SAME_PADDING;
}

/* Computes the padding of windows over `in` that XNNPACK refuses to pad to the same size. Returns
 * false for other windows. */
static bool pad_to_same_size(const ecx_node *n, const ecx_shape *in, window w[2]) {
  if (!skips(n, w)) return false;
  for (unsigned d = 0; d < 2; d++) {
    const size_t size = in->dims[d + 1], positions = (size + w[d].stride - 1) / w[d].stride;
    const size_t reach = positions ? (positions - 1) * w[d].stride + extent_of(&w[d]) : 0;
    const size_t padding = reach > size ? reach - size : 0;
    w[d].before = padding / 2;
    w[d].after = padding - w[d].before;
  }
  return true;
}

static uint32_t check_positions(const ecx_call *c, const ecx_node *n, const window w[2],
                                const ecx_shape *out) {
  size_t positions;
  if (ec_mul_size(out->dims[1], out->dims[2], &positions) &&
      ec_mul_size(positions, w[0].size * w[1].size, &positions) && positions <= MAX_POSITIONS)
    return EC_BACKEND_OK;
  return REFUSE(c, n, "a window of %zu x %zu at %zu x %zu places", w[0].size, w[1].size,
                out->dims[1], out->dims[2]);
}

static uint32_t slide_both(const ecx_call *c, const ecx_node *n, const window w[2],
                           const ecx_shape *in, ecx_shape *out) {
  *out = *in;
  ECX_TRY(slide(c, n, &w[0], in->dims[1], &out->dims[1]));
  ECX_TRY(slide(c, n, &w[1], in->dims[2], &out->dims[2]));
  return check_positions(c, n, w, out);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static void conv_windows(const ecx_node *n, window w[2]) {
  w[0] = (window){"height", ECX_PARAM(n, Conv, kernel_height), ECX_PARAM(n, Conv, stride_height),
                  ECX_PARAM(n, Conv, dilation_height), ECX_PARAM(n, Conv, padding_top),
                  ECX_PARAM(n, Conv, padding_bottom)};
  w[1] = (window){"width", ECX_PARAM(n, Conv, kernel_width), ECX_PARAM(n, Conv, stride_width),
                  ECX_PARAM(n, Conv, dilation_width), ECX_PARAM(n, Conv, padding_left),
                  ECX_PARAM(n, Conv, padding_right)};
}

static uint32_t check_bias(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                           size_t channels) {
  const ecx_value *bias = ecx_in(g, n, 2);
  char text[ECX_TEXT / 2];
  size_t count;
  if (!bias) return EC_BACKEND_OK;
  if (!bias->data.at) return REFUSE(c, n, "its bias is not constant");
  if (bias->shape.rank == 1 && ecx_shape_count(&bias->shape, &count) && count == channels)
    return EC_BACKEND_OK;
  return REFUSE(c, n, "a bias of shape %s for %zu channels", text_of(&bias->shape, text), channels);
}

/* Checks quantisation parameters, which XNNPACK reads for each image, and that the filter can be
 * packed. */
static uint32_t check_parameters(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                                 size_t channels) {
  const size_t height = ECX_PARAM(n, Conv, kernel_height), width = ECX_PARAM(n, Conv, kernel_width);
  size_t packed = (channels + PACKED_CHANNELS - 1) / PACKED_CHANNELS * PACKED_CHANNELS;
  if (!ec_mul_size(packed, height, &packed) || !ec_mul_size(packed, width, &packed) ||
      packed > MAX_PACKED_BYTES / PACKED_ELEMENT)
    return REFUSE(c, n, "a filter of %zu x %zu x %zu for each result", height, width, channels);
  return ecx_check_per_token(c, n, ecx_in(g, n, 0), 3);
}

/* Checks that the filter has exactly the shape implied by the node's parameters. Depthwise filters
 * (argument 1) are [1, height, width, channels], others [channels, height, width, channels of a
 * group]. */
static uint32_t check_filter(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                             const ecx_shape *in) {
  const ecx_value *filter = ecx_in(g, n, 1);
  size_t groups = ECX_PARAM(n, Conv, groups), each_in = ECX_PARAM(n, Conv, group_input_channels);
  size_t each_out = ECX_PARAM(n, Conv, group_output_channels);
  bool depthwise = n->kind->argument == 1;
  char text[ECX_TEXT / 2];
  if (!groups || !each_in || !each_out || groups > LARGEST || each_in > LARGEST ||
      each_out > LARGEST || (depthwise && each_in != 1))
    return REFUSE(c, n, "%zu groups of %zu channels, to %zu each", groups, each_in, each_out);
  ECX_TRY(check_parameters(c, g, n, each_in));
  if (!filter->data.at) return REFUSE(c, n, "its filter is not constant");
  const size_t expected[4] = {depthwise ? 1 : groups * each_out, ECX_PARAM(n, Conv, kernel_height),
                              ECX_PARAM(n, Conv, kernel_width),
                              depthwise ? groups * each_out : each_in};
  bool fits = filter->shape.rank == 4;
  for (size_t d = 0; fits && d < 4; d++) fits = filter->shape.dims[d] == expected[d];
  if (!fits)
    return REFUSE(c, n, "a filter of shape %s, expected [%zu, %zu, %zu, %zu]",
                  text_of(&filter->shape, text), expected[0], expected[1], expected[2],
                  expected[3]);
  if (filter->scheme == ECX_PER_CHANNEL && filter->channel_dim != (depthwise ? 3 : 0))
    return REFUSE(c, n, "scales along dimension %u of its filter, expected %d",
                  (unsigned)filter->channel_dim, depthwise ? 3 : 0);
  if (in->dims[3] != groups * each_in)
    return REFUSE(c, n, "an input of %zu channels, expected %zu", in->dims[3], groups * each_in);
  return check_bias(c, g, n, groups * each_out);
}

static size_t conv_channels(const ecx_node *n) {
  return (size_t)ECX_PARAM(n, Conv, groups) * ECX_PARAM(n, Conv, group_output_channels);
}

uint32_t ecx_shape_conv(const ecx_call *c, const ecx_graph *g, const ecx_node *n, ecx_shape *out) {
  const ecx_shape *in;
  window w[2];
  conv_windows(n, w);
  ECX_TRY(check_rank(c, g, n, &in));
  ECX_TRY(check_filter(c, g, n, in));
  ECX_TRY(slide_both(c, n, w, in, out));
  out->dims[3] = conv_channels(n);
  return EC_BACKEND_OK;
}

uint32_t ecx_shape_deconv(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                          ecx_shape *out) {
  const uint32_t adjustment[2] = {ECX_PARAM(n, Conv, adjustment_height),
                                  ECX_PARAM(n, Conv, adjustment_width)};
  const ecx_shape *in;
  window w[2];
  conv_windows(n, w);
  ECX_TRY(check_rank(c, g, n, &in));
  ECX_TRY(check_filter(c, g, n, in));
  *out = *in;
  out->dims[3] = conv_channels(n);
  for (unsigned d = 0; d < 2; d++) {
    ECX_TRY(check_window(c, n, &w[d]));
    size_t size = in->dims[d + 1], extent = extent_of(&w[d]), grown;
    if (!size || adjustment[d] >= w[d].stride ||
        !ec_mul_size(size - 1, w[d].stride, &grown) || grown > SIZE_MAX / 2 ||
        grown + extent + adjustment[d] <= w[d].before + w[d].after)
      return REFUSE(c, n, "a %s of %zu with stride %zu, padding %zu and %zu, and %u more",
                    w[d].name, size, w[d].stride, w[d].before, w[d].after, (unsigned)adjustment[d]);
    out->dims[d + 1] = grown + extent + adjustment[d] - w[d].before - w[d].after;
  }
  return check_positions(c, n, w, out);
}

/* ---- pooling and resizing -------------------------------------------------------------------- */

static bool has_padding(const window *w) { return w->before || w->after; }

static bool is_padded_apart(const window *w) {
  return has_padding(w) && (w->dilation > 1 || w->before >= w->size || w->after >= w->size);
}

static void pooling_windows(const ecx_node *n, window w[2]) {
  bool dilated = n->kind->argument == 1;
  w[0] = (window){"height", ECX_PARAM(n, Pooling, pooling_height),
                  ECX_PARAM(n, Pooling, stride_height),
                  dilated ? ECX_PARAM(n, Pooling, dilation_height) : 1,
                  ECX_PARAM(n, Pooling, padding_top), ECX_PARAM(n, Pooling, padding_bottom)};
  w[1] = (window){"width", ECX_PARAM(n, Pooling, pooling_width),
                  ECX_PARAM(n, Pooling, stride_width),
                  dilated ? ECX_PARAM(n, Pooling, dilation_width) : 1,
                  ECX_PARAM(n, Pooling, padding_left), ECX_PARAM(n, Pooling, padding_right)};
}

bool ecx_strides_apart(const ecx_node *n) {
  window w[2];
  pooling_windows(n, w);
  return w[0].size * w[1].size == 1 || w[0].stride > w[0].size || w[1].stride > w[1].size;
}

bool ecx_pads_apart(const ecx_node *n) {
  window w[2];
  pooling_windows(n, w);
  if (ecx_strides_apart(n)) return has_padding(&w[0]) || has_padding(&w[1]);
  return is_padded_apart(&w[0]) || is_padded_apart(&w[1]);
}

static void windows_of(const ecx_node *n, window w[2]) {
  (n->kind->weights ? conv_windows : pooling_windows)(n, w);
}

static bool is_window(const ecx_node *n) {
  return n->kind->flags & XNN_FLAG_TENSORFLOW_SAME_PADDING && n->kind->types != ECX_ARGMAX;
}

ecx_padding ecx_padding_of(const ecx_graph *g, const ecx_node *n) {
  window w[2];
  windows_of(n, w);
  const bool is_padded = pad_to_same_size(n, &ecx_in(g, n, 0)->shape, w);
  const uint32_t same = is_padded ? XNN_FLAG_TENSORFLOW_SAME_PADDING : 0;
  return (ecx_padding){(uint32_t)w[0].before, (uint32_t)w[1].after, (uint32_t)w[0].after,
                       (uint32_t)w[1].before, n->flags & ~same};
}

bool ecx_is_rigid(const ecx_graph *g) {
  for (uint32_t i = 0; i < g->node_count; i++) {
    const ecx_node *n = &g->nodes[i];
    window w[2];
    if (!is_window(n) || n->is_dead) continue;
    windows_of(n, w);
    if (skips(n, w)) return true;
  }
  return false;
}

uint32_t ecx_shape_max_pooling(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                               ecx_shape *out) {
  ecx_value padded = *ecx_in(g, n, 0);
  window w[2];
  size_t bytes;
  ECX_TRY(ecx_shape_pooling(c, g, n, out));
  pooling_windows(n, w);
  if (n->flags & XNN_FLAG_TENSORFLOW_SAME_PADDING && (w[0].dilation > 1 || w[1].dilation > 1))
    return REFUSE(c, n, "padding to the same size of windows with dilation");
  if (!pad_to_same_size(n, &padded.shape, w) && !ecx_pads_apart(n)) return EC_BACKEND_OK;
  for (unsigned d = 0; d < 2; d++) padded.shape.dims[d + 1] += w[d].before + w[d].after;
  if (ecx_value_bytes(&padded, &bytes) && bytes <= ECX_MAX_VALUE_BYTES) return EC_BACKEND_OK;
  char text[ECX_TEXT / 2];
  return REFUSE(c, n, "a padded input of shape %s is too large", text_of(&padded.shape, text));
}

uint32_t ecx_shape_pooling(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                           ecx_shape *out) {
  window w[2];
  pooling_windows(n, w);
  const ecx_shape *in;
  ECX_TRY(check_rank(c, g, n, &in));
  return slide_both(c, n, w, in, out);
}

uint32_t ecx_shape_argmax_pooling(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                                  ecx_shape *out) {
  uint32_t height = ECX_PARAM(n, ArgMaxPooling, pooling_height);
  uint32_t width = ECX_PARAM(n, ArgMaxPooling, pooling_width);
  const window w[2] = {{"height", height, height, 1, ECX_PARAM(n, ArgMaxPooling, padding_top),
                        ECX_PARAM(n, ArgMaxPooling, padding_bottom)},
                       {"width", width, width, 1, ECX_PARAM(n, ArgMaxPooling, padding_left),
                        ECX_PARAM(n, ArgMaxPooling, padding_right)}};
  const ecx_shape *in;
  ECX_TRY(check_rank(c, g, n, &in));
  for (unsigned d = 0; d < 2 && height * width == 1; d++)
    if (w[d].before || w[d].after) return REFUSE(c, n, "padding of windows of one element");
  return slide_both(c, n, w, in, out);
}

uint32_t ecx_shape_global_pooling(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                                  ecx_shape *out) {
  const ecx_shape *in = &ecx_in(g, n, 0)->shape;
  char text[ECX_TEXT / 2];
  *out = *in;
  if (in->rank < 3)
    return REFUSE(c, n, "an input of shape %s, expected height, width and channels at its end",
                  text_of(in, text));
  if (n->flags & XNN_FLAG_KEEP_DIMS) {
    out->dims[in->rank - 3] = out->dims[in->rank - 2] = 1;
  } else {
    out->dims[in->rank - 3] = in->dims[in->rank - 1];
    out->rank -= 2;
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_shape_resize(const ecx_call *c, const ecx_graph *g, const ecx_node *n,
                          ecx_shape *out) {
  uint32_t height = ECX_PARAM(n, Resize, height), width = ECX_PARAM(n, Resize, width);
  const ecx_shape *in;
  char text[ECX_TEXT / 2];
  ECX_TRY(check_rank(c, g, n, &in));
  *out = *in;
  if (!height || !width || height > LARGEST_RESIZED || width > LARGEST_RESIZED || !in->dims[1] ||
      !in->dims[2] || in->dims[1] > LARGEST_RESIZED || in->dims[2] > LARGEST_RESIZED)
    return REFUSE(c, n, "from %s to %u x %u", text_of(in, text), (unsigned)height, (unsigned)width);
  out->dims[1] = height;
  out->dims[2] = width;
  return EC_BACKEND_OK;
}
