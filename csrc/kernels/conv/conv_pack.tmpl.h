/* The sides of a convolution's matrix product for one dtype; EC_G is the compute type. */

static inline EC_G EC_FN(get)(EC_T x) { return (EC_G)EC_LOAD(x); }

static void EC_FN(pad_lanes)(const ec_gemm_panel *panel, size_t width, EC_G *to) {
  size_t lanes = (size_t)panel->lanes;
  for (int64_t i = 0; i < panel->depth && lanes < width; i++, to += width)
    memset(to + lanes, 0, (width - lanes) * sizeof *to);
}

/* Packs the weight; a table holds the offset of the element for each k. */
static void EC_FN(pack_weights)(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                                void *packed) {
  const EC_T *from = (const EC_T *)side->data + panel->lane0 * side->lane;
  const int64_t *table = (const int64_t *)side->geometry + panel->k0;
  EC_G *to = packed;
  for (size_t l = 0; l < (size_t)panel->lanes; l++, from += side->lane)
    for (size_t i = 0; i < (size_t)panel->depth; i++)
      to[i * width + l] = EC_FN(get)(from[table[i]]);
  EC_FN(pad_lanes)(panel, width, to);
}

/* Packs `count` adjacent positions, of which those before `from` and from `end` on are zeros. Loops
 * of constant length are one or two vectors: the last case is two that overlap. */
static inline void EC_FN(pack_adjacent)(EC_G *restrict to, const EC_T *restrict row, int64_t from,
                                        int64_t end, int64_t count) {
  enum { HALF = COLUMNS / 2 };
  if (from == 0 && end == COLUMNS && count == COLUMNS) {
    for (size_t i = 0; i < COLUMNS; i++) to[i] = EC_FN(get)(row[i]);
    return;
  }
  if (count == COLUMNS && end - from >= HALF) {
    for (size_t i = 0; i < COLUMNS; i++) to[i] = (EC_G)0;
    for (int64_t i = 0; i < HALF; i++) to[from + i] = EC_FN(get)(row[from + i]);
    for (int64_t i = 0; i < HALF; i++) to[end - HALF + i] = EC_FN(get)(row[end - HALF + i]);
    return;
  }
  for (int64_t i = 0; i < from; i++) to[i] = (EC_G)0;
  for (int64_t i = from; i < end; i++) to[i] = EC_FN(get)(row[i]);
  for (int64_t i = end; i < count; i++) to[i] = (EC_G)0;
}

/* Packs `count` positions of one input row from position x on, with zeros outside the row. */
static inline void EC_FN(pack_run)(EC_G *to, const EC_T *row, const ec_conv_line *line, int64_t x,
                                   int64_t count) {
  int64_t step = line->step;
  if (step == 1 && line->in_stride == 1 && x > -count && x < line->in) {
    EC_FN(pack_adjacent)(to, row + x, x < 0 ? -x : 0, ec_min_i64(count, line->in - x), count);
    return;
  }
  if (x < 0 || x + (count - 1) * step >= line->in) {
    for (int64_t i = 0; i < count; i++, x += step)
      to[i] = x >= 0 && x < line->in ? EC_FN(get)(row[x * line->in_stride]) : (EC_G)0;
    return;
  }
  row += x * line->in_stride;
  int64_t stride = count > 1 ? line->in_stride * step : 1; /* step is below the input's size */
  if (stride == 1)
    for (size_t i = 0; i < (size_t)count; i++) to[i] = EC_FN(get)(row[i]);
  else
    for (int64_t i = 0; i < count; i++) to[i] = EC_FN(get)(row[i * stride]);
}

/* The components of a k: channel outermost, width innermost. */
typedef struct EC_FN(tap) {
  int64_t channel, d, h, w;
} EC_FN(tap);

static inline void EC_FN(next_tap)(const ec_conv_phase *p, EC_FN(tap) * t) {
  if (++t->w < p->line[2].taps) return;
  t->w = 0;
  if (++t->h < p->line[1].taps) return;
  t->h = 0;
  if (++t->d < p->line[0].taps) return;
  t->d = 0;
  t->channel++;
}

/* Packs the input for k = (channel, tap), in rows of positions. */
EC_CLONES static void EC_FN(pack_any_rows)(const ec_gemm_side *side, const ec_gemm_panel *panel,
                                           const conv_run *runs, size_t n, size_t width,
                                           EC_G *to) {
  const ec_conv_phase *p = side->geometry;
  const ec_conv_line *line = p->line;
  int64_t tap = panel->k0 % p->taps, plane = line[1].taps * line[2].taps;
  EC_FN(tap) t = {panel->k0 / p->taps, tap / plane, tap % plane / line[2].taps, tap % line[2].taps};
  for (int64_t i = 0; i < panel->depth; i++, to += width, EC_FN(next_tap)(p, &t)) {
    const EC_T *from = (const EC_T *)side->data + t.channel * p->channel_stride;
    for (size_t r = 0; r < n; r++) {
      const conv_run *run = &runs[r];
      int64_t z = run->at[0] + line[0].shift[t.d], y = run->at[1] + line[1].shift[t.h];
      if (z < 0 || z >= line[0].in || y < 0 || y >= line[1].in)
        memset(to + run->lane, 0, (size_t)run->count * sizeof *to);
      else
        EC_FN(pack_run)(to + run->lane, from + z * line[0].in_stride + y * line[1].in_stride,
                        &line[2], run->at[2] + line[2].shift[t.w], run->count);
    }
  }
}

/* The same for pieces of rows, which are the same in all channels. */
EC_CLONES static void EC_FN(pack_pieces)(const ec_gemm_side *side, const ec_gemm_panel *panel,
                                         const conv_piece *pieces, size_t n, size_t width,
                                         EC_G *to) {
  const ec_conv_phase *p = side->geometry;
  const EC_T *from = (const EC_T *)side->data + panel->k0 / p->taps * p->channel_stride;
  int64_t tap = panel->k0 % p->taps;
  for (int64_t i = 0; i < panel->depth; i++, to += width) {
    for (const conv_piece *c = &pieces[(size_t)tap * n], *end = c + n; c < end; c++)
      EC_FN(pack_adjacent)(to + c->lane, from + c->offset, c->from, c->end, c->count);
    if (++tap < p->taps) continue;
    tap = 0;
    from += p->channel_stride;
  }
}

static void EC_FN(pack_rows)(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                             void *packed) {
  conv_run runs[EC_MICRO_LANES];
  conv_piece pieces[PIECES];
  const size_t n = list_runs(side->geometry, panel, runs);
  if (!EC_IS_SMALL && list_pieces(side->geometry, runs, n, pieces))
    EC_FN(pack_pieces)(side, panel, pieces, n, width, packed);
  else
    EC_FN(pack_any_rows)(side, panel, runs, n, width, packed);
  EC_FN(pad_lanes)(panel, width, packed);
}

/* Finds the first channel of every lane for one tap; zeros outside the input. */
static void EC_FN(find_lanes)(const ec_gemm_side *side, const conv_run *runs, size_t n,
                              int64_t tap, const EC_T **lanes) {
  const ec_conv_phase *p = side->geometry;
  const ec_conv_line *line = p->line;
  int64_t plane = line[1].taps * line[2].taps;
  int64_t dz = line[0].shift[tap / plane], dy = line[1].shift[tap % plane / line[2].taps];
  int64_t dx = line[2].shift[tap % line[2].taps];
  for (size_t r = 0; r < n; r++) {
    int64_t z = runs[r].at[0] + dz, y = runs[r].at[1] + dy, x = runs[r].at[2] + dx;
    bool outside = z < 0 || z >= line[0].in || y < 0 || y >= line[1].in;
    const EC_T *row = side->data;
    if (!outside) row += z * line[0].in_stride + y * line[1].in_stride;
    for (int64_t i = 0; i < runs[r].count; i++, x += line[2].step)
      lanes[runs[r].lane + i] =
          outside || x < 0 || x >= line[2].in ? p->zeros : row + x * line[2].in_stride;
  }
}

/* Packs the input for k = (tap, channel), for contiguous channels. */
static void EC_FN(pack_channels)(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                                 void *packed) {
  const ec_conv_phase *p = side->geometry;
  conv_run runs[EC_MICRO_LANES];
  const EC_T *lanes[EC_MICRO_LANES];
  size_t n = list_runs(p, panel, runs), count = (size_t)panel->lanes;
  int64_t tap = panel->k0 / p->channels, channel = panel->k0 % p->channels;
  EC_G *to = packed;
  for (int64_t left = panel->depth; left; tap++, channel = 0) {
    int64_t channels = p->channels - channel < left ? p->channels - channel : left;
    EC_FN(find_lanes)(side, runs, n, tap, lanes);
    for (size_t l = 0; l < count; l++) {
      const EC_T *from = lanes[l] + channel;
      for (size_t i = 0; i < (size_t)channels; i++) to[i * width + l] = EC_FN(get)(from[i]);
    }
    to += (size_t)channels * width;
    left -= channels;
  }
  EC_FN(pad_lanes)(panel, width, packed);
}
