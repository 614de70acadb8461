/* The table of convolution loops by dtype. */
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "core/small.h"
#include "core/template.h"
#include "kernels/conv/conv.h"

enum { COLUMNS = 32 }; /* of a panel with AVX-512 */

/* Consecutive output positions of one row, as lanes of a panel. */
typedef struct conv_run {
  int64_t lane, count, at[EC_CONV_AXES]; /* input position of the first one, without taps */
} conv_run;

/* Splits a panel's lanes into runs; there is room for EC_MICRO_LANES of them. */
static size_t list_runs(const ec_conv_phase *phase, const ec_gemm_panel *panel, conv_run *runs) {
  const ec_conv_line *line = phase->line;
  int64_t width = line[2].out, row = panel->lane0 / width, column = panel->lane0 % width;
  size_t n = 0;
  for (int64_t lane = 0; lane < panel->lanes; row++, column = 0) {
    conv_run *run = &runs[n++];
    run->lane = lane;
    run->count = ec_min_i64(panel->lanes - lane, width - column);
    run->at[0] = row / line[1].out * line[0].step + line[0].first;
    run->at[1] = row % line[1].out * line[1].step + line[1].first;
    run->at[2] = column * line[2].step + line[2].first;
    lane += run->count;
  }
  return n;
}

enum { PIECES = 64 };

/* What one tap reads for a run: adjacent elements at `offset` in each channel, of which those
 * before `from` and from `end` on are padding. */
typedef struct conv_piece {
  int64_t lane, count, offset, from, end;
} conv_piece;

/* Lists the pieces of all runs, tap by tap. Returns false if there are too many, or if positions
 * are not adjacent. */
static bool list_pieces(const ec_conv_phase *phase, const conv_run *runs, size_t n,
                        conv_piece *pieces) {
  const ec_conv_line *line = phase->line;
  if (line[2].step != 1 || line[2].in_stride != 1) return false;
  if ((uint64_t)phase->taps * n > PIECES) return false;
  for (int64_t d = 0; d < line[0].taps; d++)
    for (int64_t h = 0; h < line[1].taps; h++)
      for (int64_t w = 0; w < line[2].taps; w++)
        for (size_t r = 0; r < n; r++, pieces++) {
          const conv_run *run = &runs[r];
          const int64_t z = run->at[0] + line[0].shift[d], y = run->at[1] + line[1].shift[h];
          const int64_t x = run->at[2] + line[2].shift[w];
          *pieces = (conv_piece){.lane = run->lane, .count = run->count};
          if (z < 0 || z >= line[0].in || y < 0 || y >= line[1].in) continue;
          if (x <= -run->count || x >= line[2].in) continue;
          pieces->offset = z * line[0].in_stride + y * line[1].in_stride + x;
          pieces->from = x < 0 ? -x : 0;
          pieces->end = ec_min_i64(run->count, line[2].in - x);
        }
  return true;
}

/* Returns the lanes whose position on axis d, shifted by a tap, is inside the input. */
static uint64_t find_inside(const ec_conv_line *line, size_t d, int64_t shift,
                            const conv_run *runs, size_t n) {
  uint64_t inside = 0;
  for (const conv_run *run = runs; run < runs + n; run++) {
    const int64_t x = run->at[d] + shift;
    int64_t from = 0, end = run->count;
    if (d + 1 == EC_CONV_AXES) {
      from = x < 0 ? -x : 0;
      end = ec_min_i64(end, line[d].in - x);
    } else if (x < 0 || x >= line[d].in) {
      continue;
    }
    if (from < end) inside |= UINT64_MAX >> (64 - (end - from)) << (run->lane + from);
  }
  return inside;
}

void ec_conv_list_taps(const ec_gemm_side *side, const ec_gemm_panel *panel, ec_micro_taps *taps) {
  conv_run runs[EC_MICRO_LANES];
  uint64_t column[EC_MICRO_TAPS];
  const ec_conv_phase *p = side->geometry;
  const ec_conv_line *line = p->line;
  const size_t n = list_runs(p, panel, runs);
  taps->data = (const float *)side->data + panel->k0 / p->taps * p->channel_stride;
  taps->next = p->channel_stride;
  taps->first = (size_t)(panel->k0 % p->taps);
  taps->count = (size_t)p->taps;
  ec_micro_tap *tap = taps->tap;
  for (int64_t w = 0; w < line[2].taps; w++)
    column[w] = find_inside(line, 2, line[2].shift[w], runs, n);
  for (int64_t d = 0; d < line[0].taps; d++) {
    const uint64_t planes = find_inside(line, 0, line[0].shift[d], runs, n);
    for (int64_t h = 0; h < line[1].taps; h++) {
      const uint64_t rows = planes & find_inside(line, 1, line[1].shift[h], runs, n);
      for (int64_t w = 0; w < line[2].taps; w++, tap++) {
        *tap = (ec_micro_tap){0, rows & column[w]};
        if (!tap->inside) continue; /* positions may be far outside */
        tap->offset = (runs->at[0] + line[0].shift[d]) * line[0].in_stride +
                      (runs->at[1] + line[1].shift[h]) * line[1].in_stride + runs->at[2] +
                      line[2].shift[w];
      }
    }
  }
}

void ec_conv_pack_taps(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                       void *packed) {
  const ec_conv_phase *p = side->geometry;
  const int64_t positions = p->line[0].out * p->line[1].out * p->line[2].out;
  ec_micro_taps taps;
  for (int64_t lane = 0, count; lane < panel->lanes; lane += count) {
    const int64_t image = (panel->lane0 + lane) / positions;
    const int64_t at = (panel->lane0 + lane) % positions;
    count = ec_min_i64(panel->lanes - lane, p->adjacent - at % p->adjacent);
    const ec_gemm_panel part = {at, count, panel->k0, panel->depth};
    ec_gemm_side from = *side;
    from.data = (const float *)side->data + image * p->image_stride;
    ec_conv_list_taps(&from, &part, &taps);
    /* The lanes after these are zeros until the next ones are written. */
    ec_micro_pack_taps((size_t)panel->depth, &taps, width - (size_t)lane, width,
                       (float *)packed + lane);
  }
}

#define EC_TEMPLATE "kernels/conv/conv_pack.tmpl.h"
#include "kernels/linalg/foreach_gemm_real.h"
#undef EC_TEMPLATE

#define EC_TEMPLATE "kernels/conv/conv_direct.tmpl.h"
#include "kernels/linalg/foreach_gemm_real.h"
#undef EC_TEMPLATE

#define ROW(name)                                                                                  \
  {EC_KEEP(name, pack_rows_##name),      EC_KEEP(name, pack_channels_##name),                      \
   EC_KEEP(name, pack_weights_##name),   EC_KEEP(name, depthwise_rows_##name),                     \
   EC_KEEP(name, depthwise_channels_##name), EC_KEEP(name, has_nonfinite_##name),                  \
   EC_KEEP(name, reference_##name)}

const ec_conv_loops ec_conv_loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16), [EC_BFLOAT16] = ROW(bfloat16), [EC_FLOAT32] = ROW(float32),
    [EC_FLOAT64] = ROW(float64), [EC_UINT8] = ROW(uint8),       [EC_INT8] = ROW(int8),
    [EC_INT16] = ROW(int16),     [EC_INT32] = ROW(int32),       [EC_INT64] = ROW(int64),
};
