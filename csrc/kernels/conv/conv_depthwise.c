/* Depthwise convolution of float32 at stride 1 with adjacent columns: all taps of an output row in
 * one pass, whose sums stay in registers. The loops of conv_direct.tmpl.h pass over a row of sums
 * for each tap; both add in the same order. */
#include "core/checked.h"
#include "core/simd.h"
#include "kernels/conv/conv.h"

enum { LANES = 8, WIDE = 4 /* vectors of a block of columns */, MAX_TAPS = 64 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));

/* The taps inside the image for one output row. */
typedef struct taps {
  bool all;
  size_t count;
  float weight[MAX_TAPS];
  int64_t offset[MAX_TAPS]; /* elements from the input of a tap without shifts */
  int64_t shift[MAX_TAPS];  /* columns from it */
} taps;

static inline __attribute__((always_inline)) void run_block(const taps *t, const float *in,
                                                            float bias, float *out, int64_t x,
                                                            size_t vectors) {
  lanes sums[WIDE];
  for (size_t v = 0; v < vectors; v++) sums[v] = (lanes){0} + bias;
  for (size_t k = 0; k < t->count; k++) {
    const lanes *from = (const lanes *)(const void *)(in + t->offset[k] + x);
    for (size_t v = 0; v < vectors; v++) sums[v] += t->weight[k] * from[v];
  }
  for (size_t v = 0; v < vectors; v++) ((lanes *)(void *)(out + x))[v] = sums[v];
}

/* Columns where all taps are inside the image. The last block may overlap the one before it. */
EC_CLONES static void run_interior(const taps *t, const float *in, float bias, float *out,
                                   int64_t from, int64_t to) {
  int64_t x = from;
  for (; x + WIDE * LANES <= to; x += WIDE * LANES) run_block(t, in, bias, out, x, WIDE);
  for (; x + LANES <= to; x += LANES) run_block(t, in, bias, out, x, 1);
  if (x < to && to - from >= LANES) {
    run_block(t, in, bias, out, to - LANES, 1);
    x = to;
  }
  for (; x < to; x++) {
    float sum = bias;
    for (size_t k = 0; k < t->count; k++) sum += t->weight[k] * in[t->offset[k] + x];
    out[x] = sum;
  }
}

static void run_edge(const taps *t, const float *in, float bias, float *out, int64_t from,
                     int64_t to, int64_t columns) {
  for (int64_t x = from; x < to; x++) {
    float sum = bias;
    for (size_t k = 0; k < t->count; k++) {
      const int64_t column = x + t->shift[k];
      if (column >= 0 && column < columns) sum += t->weight[k] * in[t->offset[k] + x];
    }
    out[x] = sum;
  }
}

static bool is_inside(const ec_conv_line *l, int64_t o, int64_t tap) {
  const int64_t at = o * l->step + l->first + l->shift[tap];
  return at >= 0 && at < l->in;
}

/* True if all taps of an axis are inside: shifts are sorted. */
static bool are_inside(const ec_conv_line *l, int64_t o) {
  return is_inside(l, o, 0) && is_inside(l, o, l->taps - 1);
}

/* Collects the taps of the output row (d, h). */
static void find_taps(const ec_conv_phase *p, const float *weight, int64_t d, int64_t h, taps *t) {
  const ec_conv_line *depth = &p->line[0], *height = &p->line[1], *width = &p->line[2];
  const bool all = are_inside(depth, d) && are_inside(height, h);
  if (all && t->all) return;
  t->all = all;
  t->count = 0;
  for (int64_t i = 0; i < depth->taps; i++)
    for (int64_t j = 0; j < height->taps; j++) {
      if (!is_inside(depth, d, i) || !is_inside(height, h, j)) continue;
      for (int64_t k = 0; k < width->taps; k++, t->count++) {
        t->shift[t->count] = width->first + width->shift[k];
        t->offset[t->count] = (depth->first + depth->shift[i]) * depth->in_stride +
                              (height->first + height->shift[j]) * height->in_stride +
                              t->shift[t->count];
        t->weight[t->count] = weight[depth->weight[i] + height->weight[j] + width->weight[k]];
      }
    }
}

static void run_channel(const ec_conv_phase *p, const float *in, const float *weight, float *out,
                        float bias) {
  const ec_conv_line *depth = &p->line[0], *height = &p->line[1], *width = &p->line[2];
  int64_t from = ec_max_i64(0, -(width->first + width->shift[0]));
  int64_t to = width->in - (width->first + width->shift[width->taps - 1]);
  if (to > width->out) to = width->out;
  if (from >= to) from = to = width->out;
  taps t;
  t.all = false;
  for (int64_t d = 0; d < depth->out; d++)
    for (int64_t h = 0; h < height->out; h++) {
      float *row = out + d * depth->out_stride + h * height->out_stride;
      const float *at = in + d * depth->step * depth->in_stride +
                        h * height->step * height->in_stride;
      find_taps(p, weight, d, h, &t);
      run_edge(&t, at, bias, row, 0, from, width->in);
      run_edge(&t, at, bias, row, to, width->out, width->in);
      run_interior(&t, at, bias, row, from, to);
    }
}

static void run_rows(const ec_conv *conv, const ec_conv_phase *p, int64_t image, void *sums) {
  const float *bias = conv->bias, *input = conv->input, *weight = conv->weight;
  float *out = conv->out;
  (void)sums;
  for (int64_t g = 0; g < conv->groups; g++)
    for (int64_t o = 0; o < conv->out_channels; o++) {
      const int64_t channel = g * conv->out_channels + o;
      run_channel(p, input + image * conv->in_batch + g * conv->in_group,
                  weight + g * conv->weight_group + o * conv->weight_out,
                  out + image * conv->out_batch + channel * conv->out_channel + p->out_offset,
                  bias ? bias[channel] : 0);
    }
}

ec_conv_depthwise ec_conv_rows_f32(const ec_conv *conv) {
  const ec_conv_axis *a = conv->axis, *width = &a[2];
  int64_t taps_count;
  const bool few = ec_mul_i64(a[0].kernel, a[1].kernel, &taps_count) &&
                   ec_mul_i64(taps_count, width->kernel, &taps_count) && taps_count <= MAX_TAPS;
  if (conv->dtype != EC_FLOAT32 || conv->transposed || width->stride != 1 || !few ||
      width->in_stride != 1 || width->out_stride != 1)
    return NULL;
  return run_rows;
}
