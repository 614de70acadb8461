/* Convolution by matrix products that read the input in place, phase by phase. */
#include "kernels/conv/conv.h"

#include <string.h>

#include "core/checked.h"
#include "core/small.h"

static int64_t count_positions(const ec_conv_phase *p) {
  return p->line[0].out * p->line[1].out * p->line[2].out;
}

static const void *element_at(const ec_conv *conv, const void *data, int64_t elements) {
  return (const char *)data + elements * (int64_t)ec_dtype_size(conv->dtype);
}

/* One axis of phase `p` (0 of a forward convolution). A kernel of no input channels has no taps. */
static void init_line(const ec_conv_axis *a, bool transposed, bool empty, int64_t p,
                      ec_conv_line *line) {
  line->in = a->in;
  line->in_stride = a->in_stride;
  line->first = line->taps = 0;
  line->step = transposed ? 1 : a->stride;
  line->out = transposed ? (a->out - 1 - p) / a->stride + 1 : a->out;
  line->out_stride = transposed && line->out > 1 ? a->out_stride * a->stride : a->out_stride;
  for (int64_t k = 0; k < a->kernel && !empty; k++) {
    int64_t from = transposed ? p + a->padding - k * a->dilation : k * a->dilation - a->padding;
    if (transposed && from % a->stride) continue;
    line->shift[line->taps] = transposed ? from / a->stride : from;
    line->weight[line->taps++] = k * a->weight_stride;
  }
}

/* Computes the offset of the weight's element for each k. */
static void init_weights(const ec_conv *conv, const ec_conv_phase *p, int64_t *weights) {
  const ec_conv_line *line = p->line;
  int64_t channels = p->channels, at = 0;
  for (int64_t d = 0; d < line[0].taps; d++)
    for (int64_t h = 0; h < line[1].taps; h++)
      for (int64_t w = 0; w < line[2].taps; w++, at++) {
        int64_t element = line[0].weight[d] + line[1].weight[h] + line[2].weight[w];
        for (int64_t i = 0; i < channels; i++)
          weights[p->channels_last ? at * channels + i : i * p->taps + at] =
              element + i * conv->weight_in;
      }
}

/* Returns the common stride of all elements of a table, or 0. */
static int64_t find_step(const int64_t *table, int64_t n) {
  int64_t stride = n > 1 ? table[1] - table[0] : 1;
  for (int64_t i = 0; i < n; i++)
    if (table[i] != table[0] + i * stride) return 0;
  return stride;
}

/* True if all positions of the output (`input`: of a 1x1 kernel's input) follow one stride. */
static bool one_stride(const ec_conv_line *line, bool input, int64_t *stride) {
  int64_t expected = 0;
  *stride = 1;
  for (size_t d = EC_CONV_AXES; d-- > 0;) {
    int64_t size = line[d].out, s = input ? line[d].in_stride : line[d].out_stride;
    if (size == 1) continue;
    if (!expected) *stride = s;
    else if (s != expected) return false;
    expected = s * size;
  }
  return true;
}

/* True if the input already is a matrix. */
static bool is_pointwise(const ec_conv_phase *p, int64_t *stride) {
  for (size_t d = 0; d < EC_CONV_AXES; d++) {
    const ec_conv_line *l = &p->line[d];
    if (l->taps != 1 || l->shift[0] != 0 || l->first != 0 || l->in < l->out) return false;
    if (l->out != 1 && (l->step != 1 || l->in != l->out)) return false;
  }
  return one_stride(p->line, true, stride);
}

/* Returns how many positions read adjacent elements of the input with each tap: of a row, or of an
 * image if they do so across the ends of rows, too. 0: none. */
static int64_t count_adjacent(const ec_conv *conv, const ec_conv_phase *p) {
  int64_t stride;
  const ec_conv_line *row = &p->line[2];
  if (conv->dtype != EC_FLOAT32 || p->channels_last) return 0;
  if (!p->taps || p->taps > EC_MICRO_TAPS) return 0;
  if (row->out > 1 && (row->step != 1 || row->in_stride != 1)) return 0;
  for (size_t d = 0; d < EC_CONV_AXES; d++)
    if (p->line[d].out != 1 && p->line[d].step != 1) return row->out;
  return one_stride(p->line, true, &stride) && stride == 1 ? count_positions(p) : row->out;
}

static int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/* Chooses the transposed product if it has fewer products: vectors then are output channels, and
 * small images, of 7 x 7 or 14 x 14 positions, fill few panels. A product may be of all images. */
static void choose_product(const ec_call *c, const ec_conv *conv, ec_conv_phase *p) {
  enum {
    PACKING = 4,  /* as many output channels take as long as the packing of positions */
    SHARING = 48, /* the same, where other threads read what one has packed */
    MAX_POSITIONS = 384 /* positions of one product, whose parts stay in a second-level cache */
  };
  const ec_micro *micro = ec_micro_find(EC_MICRO_FLOAT);
  const int64_t n = count_positions(p), m = conv->out_channels, width = (int64_t)micro->cols;
  const int64_t step = (int64_t)micro->rows / EC_MICRO_STEPS;
  const int64_t threads = (int64_t)ec_threads_count(c->threads);
  int64_t stride;
  if (!ec_micro_find_taps(micro) || conv->transposed || c->reference) return;
  if (p->adjacent < step || n <= step || m <= step) return;
  const bool many = n <= MAX_POSITIONS && one_stride(p->line, false, &stride);
  const int64_t products = many ? (conv->batch - 1) / (MAX_POSITIONS / n) + 1 : conv->batch;
  const int64_t images = (conv->batch - 1) / products + 1;
  const int64_t plain = round_up(n, width * threads) * round_up(m, step) * images;
  const int64_t packing = threads > 1 ? SHARING : PACKING;
  const int64_t turned = (round_up(m, width * threads) + packing) * round_up(n * images, step);
  p->turned = turned * 32 < plain * 31;
  if (p->turned) p->images = images;
}

/* Initialises both sides of a phase's product, without their data. */
static void init_sides(const ec_conv *conv, const ec_conv_phase *p, ec_gemm_side *a,
                       ec_gemm_side *b) {
  const ec_conv_loops *loops = &ec_conv_loops_of[conv->dtype];
  int64_t k = p->channels * p->taps, stride = find_step(p->weights, k);
  *a = (ec_gemm_side){.pack = loops->weights, .lane = conv->weight_out, .geometry = p->weights};
  if (stride && k && p->weights[0] == 0)
    *a = (ec_gemm_side){.lane = conv->weight_out, .k = stride};
  if (!conv->transposed) a->kept = conv->kept; /* a phase has other weights */
  a->variant = p->channels_last;
  *b = (ec_gemm_side){.pack = p->channels_last ? loops->channels : loops->rows, .geometry = p};
  if (!EC_IS_SMALL && p->turned) b->pack = ec_conv_pack_taps;
  else if (!EC_IS_SMALL && p->adjacent >= count_positions(p)) b->list = ec_conv_list_taps;
  if (!p->turned && is_pointwise(p, &stride))
    *b = (ec_gemm_side){.lane = stride, .k = p->channel_stride};
}

/* Runs all images and groups of one phase with outputs on one stride. */
static void run_products(const ec_conv *conv, const ec_conv_phase *p, ec_gemm *g, ec_gemm_out to) {
  ec_gemm_side a, b;
  init_sides(conv, p, &a, &b);
  const int64_t positions = count_positions(p);
  if (p->images > 1) {
    to.line = positions;
    to.next = conv->out_batch;
  }
  for (int64_t n = 0; n < conv->batch; n += p->images) {
    const int64_t images = ec_min_i64(p->images, conv->batch - n);
    ec_gemm_resize(g, (ec_gemm_size){conv->out_channels, positions * images,
                                     p->channels * p->taps});
    for (int64_t i = 0; i < conv->groups; i++) {
      int64_t first = i * conv->out_channels;
      a.data = element_at(conv, conv->weight, i * conv->weight_group);
      b.data = element_at(conv, conv->input, n * conv->in_batch + i * conv->in_group);
      to.data = (char *)conv->out +
                (n * conv->out_batch + first * conv->out_channel + p->out_offset) *
                    (int64_t)ec_dtype_size(conv->dtype);
      if (conv->bias) to.add = element_at(conv, conv->bias, first);
      ec_gemm_run(g, &a, &b, &to);
    }
  }
}

/* Runs one phase as matrix products: of all positions, or plane by plane. */
static void run_phase(const ec_conv *conv, ec_conv_phase *p, ec_gemm *g) {
  ec_gemm_out to = {.row = conv->out_channel, .add_row = 1};
  if (one_stride(p->line, false, &to.col)) {
    run_products(conv, p, g, to);
    return;
  }
  ec_conv_line *depth = &p->line[0];
  int64_t planes = depth->out, first = depth->first, start = p->out_offset;
  depth->out = 1;
  if (!one_stride(p->line, false, &to.col)) {
    to.col = p->line[2].out_stride;
    to.line = p->line[2].out;
    to.next = p->line[1].out_stride;
  }
  for (int64_t d = 0; d < planes; d++) {
    depth->first = first + d * depth->step;
    p->out_offset = start + d * depth->out_stride;
    run_products(conv, p, g, to);
  }
  depth->out = planes;
  depth->first = first;
  p->out_offset = start;
}

/* Allocates the tables of a phase. */
static ec_status init_phase(ec_call *c, const ec_conv *conv, ec_conv_phase *p) {
  *p = (ec_conv_phase){.channels = conv->in_channels, .channel_stride = conv->in_channel,
                       .images = 1, .image_stride = conv->in_batch};
  p->channels_last = conv->in_channel == 1 && conv->in_channels > 1;
  if (conv->in_channels == 0) return EC_OK;
  int64_t taps = 1;
  for (size_t d = 0; d < EC_CONV_AXES; d++) {
    size_t kernel = (size_t)conv->axis[d].kernel;
    taps *= conv->axis[d].kernel; /* at most the elements of the weight */
    EC_TRY(ec_call_scratch(c, kernel, sizeof(int64_t), &p->line[d].shift));
    EC_TRY(ec_call_scratch(c, kernel, sizeof(int64_t), &p->line[d].weight));
  }
  EC_TRY(ec_call_scratch(c, (size_t)conv->in_channels, ec_dtype_size(conv->dtype), &p->zeros));
  return ec_call_scratch(c, (size_t)(taps * conv->in_channels), sizeof(int64_t), &p->weights);
}

typedef struct worker {
  ec_gemm gemm;
  ec_conv_depthwise depthwise;
  char *sums; /* `room` bytes for each block of rows */
  size_t room, blocks;
} worker;

enum { BLOCK_COST = 1 << 16, BLOCKS = 4 /* per thread */ };

/* Returns the number of row blocks for one image: few, because they are large. */
static size_t count_blocks(const ec_call *c, const ec_conv *conv, int64_t taps) {
  size_t rows = (size_t)conv->axis[1].out, most = ec_threads_count(c->threads) * BLOCKS;
  double cost = (double)taps * (double)conv->groups * (double)conv->out_channels;
  for (size_t d = 0; d < EC_CONV_AXES; d++) cost *= (double)conv->axis[d].out;
  if (!c->threads || cost < 2 * BLOCK_COST) return 1;
  if (cost / BLOCK_COST < (double)most) most = (size_t)(cost / BLOCK_COST);
  return most < rows ? most : rows;
}

/* Chooses between depthwise loops and products, and allocates their scratch memory. */
static ec_status init_worker(ec_call *c, const ec_conv *conv, const ec_conv_phase *p, worker *w) {
  const ec_conv_loops *loops = &ec_conv_loops_of[conv->dtype];
  const ec_conv_axis *axis = conv->axis;
  *w = (worker){.depthwise = NULL};
  if (conv->in_channels == 1 && conv->groups > 1) {
    bool inner = conv->in_group == 1 && conv->out_channel == 1 && conv->out_channels == 1;
    int64_t taps = axis[0].kernel * axis[1].kernel * axis[2].kernel;
    int64_t sums = inner ? conv->groups * (taps + 1) : axis[2].out;
    const ec_conv_depthwise rows = ec_conv_rows_f32(conv);
    w->depthwise = inner ? loops->depthwise_channels : rows ? rows : loops->depthwise_rows;
    w->blocks = count_blocks(c, conv, taps);
    if (!ec_mul_size((size_t)sums, sizeof(double), &w->room))
      return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a row");
    return ec_call_scratch(c, w->blocks, w->room, &w->sums);
  }
  int64_t n = p->images, k = p->channels;
  for (size_t d = 0; d < EC_CONV_AXES; d++) {
    n *= axis[d].out;
    k *= p->channels ? axis[d].kernel : 0;
  }
  ec_gemm_out out = {.row = conv->out_channel};
  out.col = conv->out_channel == 1 && conv->groups * conv->out_channels > 1 ? 0 : 1;
  if (p->turned) out = (ec_gemm_out){.row = 1};
  return ec_gemm_init(c, conv->dtype, (ec_gemm_size){conv->out_channels, n, k}, &out, &w->gemm);
}

/* One image for depthwise loops. */
typedef struct depthwise_call {
  const ec_conv *conv;
  const ec_conv_phase *phase;
  const worker *worker;
  int64_t image;
} depthwise_call;

static void run_depthwise(void *user, size_t begin, size_t end) {
  const depthwise_call *d = user;
  const worker *w = d->worker;
  for (size_t block = begin; block < end; block++) {
    ec_conv_phase part = *d->phase;
    ec_conv_line *line = &part.line[1];
    int64_t rows = line->out, count = (int64_t)w->blocks, i = (int64_t)block;
    int64_t from = rows * i / count;
    line->out = rows * (i + 1) / count - from;
    line->first += from * line->step;
    part.out_offset += from * line->out_stride;
    if (line->out) w->depthwise(d->conv, &part, d->image, w->sums + block * w->room);
  }
}

static void init_lines(const ec_conv *conv, const int64_t *at, ec_conv_phase *p) {
  p->out_offset = 0;
  for (size_t d = 0; d < EC_CONV_AXES; d++) {
    init_line(&conv->axis[d], conv->transposed, conv->in_channels == 0, at[d], &p->line[d]);
    p->out_offset += at[d] * conv->axis[d].out_stride;
  }
  p->taps = p->line[0].taps * p->line[1].taps * p->line[2].taps;
  p->adjacent = EC_IS_SMALL ? 0 : count_adjacent(conv, p);
}

static void run_one(const ec_call *c, const ec_conv *conv, ec_conv_phase *p, worker *w) {
  if (!w->depthwise) {
    int64_t *weights;
    memcpy(&weights, &p->weights, sizeof weights);
    init_weights(conv, p, weights);
    run_phase(conv, p, &w->gemm);
    return;
  }
  depthwise_call d = {conv, p, w, 0};
  for (; d.image < conv->batch; d.image++) ec_parallel_for(c, w->blocks, 1, run_depthwise, &d);
}

ec_status ec_conv_run_fast(ec_call *c, const ec_conv *conv) {
  const ec_conv_axis *axis = conv->axis;
  ec_conv_phase p;
  worker w;
  int64_t phases[EC_CONV_AXES], i[EC_CONV_AXES] = {0};
  EC_TRY(init_phase(c, conv, &p));
  init_lines(conv, i, &p);
  if (!EC_IS_SMALL) choose_product(c, conv, &p);
  EC_TRY(init_worker(c, conv, &p, &w));
  for (size_t d = 0; d < EC_CONV_AXES; d++)
    phases[d] = conv->transposed ? ec_min_i64(axis[d].stride, axis[d].out) : 1;
  for (i[0] = 0; i[0] < phases[0]; i[0]++)
    for (i[1] = 0; i[1] < phases[1]; i[1]++)
      for (i[2] = 0; i[2] < phases[2]; i[2]++) {
        init_lines(conv, i, &p);
        run_one(c, conv, &p, &w);
      }
  return EC_OK;
}
