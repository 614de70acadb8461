/* Blocking and packing around the micro-kernels. */
#include "kernels/linalg/gemm.h"

#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/small.h"
#include "kernels/linalg/gemm_loops.h"
#include "kernels/linalg/kept.h"
#include "kernels/linalg/rows_avx512.h"
#include "kernels/record.h"

enum {
  BLOCK_ROWS = 384,    /* of A in one block */
  BLOCK_COLS = 1024,   /* of B in one block */
  PANEL_BYTES = 24576, /* of one packed panel of B: most of a first-level cache */
  VECTOR_ROWS = 2,  /* at most this number of rows are computed by vector loops, without packing */
  PIECE_ELEMENTS = 1 << 15, /* minimum packed by one thread */
  PIECE_PRODUCTS = 1 << 20  /* least multiplied by one thread, about */
};

/* The part of a product that is packed at once. */
typedef struct block {
  const ec_gemm *g;
  const ec_gemm_loops *loops;
  const ec_gemm_side *a, *b;
  const ec_gemm_out *out;
  const ec_kept_side *kept_a, *kept_b; /* NULL: packed block by block */
  void *packed_a, *packed_b;           /* the block's panels */
  bool in_place; /* full panels of B are read in place */
  const ec_micro_taps_fn *taps; /* all panels of B are read in place; NULL: as above */
  int64_t row, rows, col, cols, k, depth;
} block;

static int64_t round_up(int64_t value, size_t step) {
  int64_t s = (int64_t)step;
  return (value + s - 1) / s * s;
}

/* Allocates uninitialised scratch, unlike ec_call_scratch: every element is written before it is
 * read. */
static ec_status alloc_scratch(ec_call *c, int64_t count, size_t size, void *out) {
  size_t bytes;
  void *memory = NULL;
  if (ec_mul_size((size_t)count, size, &bytes))
    memory = ec_arena_alloc(c->scratch, bytes, EC_ALIGN);
  if (!memory)
    return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for blocks of a matrix product");
  memcpy(out, &memory, sizeof memory);
  return EC_OK;
}

ec_status ec_gemm_init(ec_call *c, ec_dtype dtype, ec_gemm_size size, const ec_gemm_out *out,
                       ec_gemm *g) {
  const ec_micro *micro = ec_micro_find(ec_gemm_loops_of[dtype].type);
  *g = (ec_gemm){size.m, size.n, size.k, dtype, c->reference, false, micro, 0, 0, 0, 0, 0, 0,
                 0, c->threads, NULL};
  if (size.m == 0 || size.n == 0 || c->reference) return EC_OK;
  /* Computes the transposed product if C's columns are contiguous, or for a vector on the right. */
  g->swapped = size.m > VECTOR_ROWS && (size.n <= VECTOR_ROWS || (out->col != 1 && out->row == 1));
  if (g->swapped) {
    g->m = size.n;
    g->n = size.m;
  }
  g->depth = ec_min_i64(g->k, (int64_t)(PANEL_BYTES / (micro->cols * micro->size)));
  g->depth = ec_max_i64(1, g->depth);
  g->rows = round_up(ec_min_i64(g->m, BLOCK_ROWS), micro->rows);
  g->cols = round_up(ec_min_i64(g->n, BLOCK_COLS), micro->cols);
  int64_t sums = g->k > g->depth ? g->rows * g->cols : (int64_t)(micro->rows * micro->cols);
  if (g->m <= VECTOR_ROWS) sums = ec_max_i64(sums, g->n);
  EC_TRY(alloc_scratch(c, g->rows * g->depth, micro->size, &g->a));
  EC_TRY(alloc_scratch(c, g->cols * g->depth, micro->size, &g->b));
  g->room = sums;
  return alloc_scratch(c, sums, micro->size, &g->sums);
}

void ec_gemm_resize(ec_gemm *g, ec_gemm_size size) {
  g->m = g->swapped ? size.n : size.m;
  g->n = g->swapped ? size.m : size.n;
  g->k = size.k;
}

ec_gemm_pack ec_gemm_pack_strided(ec_dtype dtype) { return ec_gemm_loops_of[dtype].pack; }

static void *packed_at(void *base, int64_t index, const ec_micro *micro) {
  return (char *)base + (size_t)index * micro->size;
}

typedef struct packing {
  const block *w;
  const ec_gemm_side *side;
  int64_t first, lanes;
  size_t width;
  void *to;
} packing;

static void pack_panels(void *user, size_t begin, size_t end) {
  const packing *p = user;
  const block *w = p->w;
  ec_gemm_pack fn = p->side->pack ? p->side->pack : w->loops->pack;
  for (int64_t l = (int64_t)(begin * p->width); l < (int64_t)(end * p->width) && l < p->lanes;
       l += (int64_t)p->width) {
    ec_gemm_panel panel = {p->first + l, ec_min_i64((int64_t)p->width, p->lanes - l), w->k,
                           w->depth};
    fn(p->side, &panel, p->width, packed_at(p->to, l * w->depth, w->g->micro));
  }
}

/* Packs a block of one side, panel by panel. */
static void pack_side(const block *w, const ec_gemm_side *side, int64_t first, int64_t lanes,
                      size_t width, void *to) {
  packing p = {w, side, first, lanes, width, to};
  size_t panels = ((size_t)lanes + width - 1) / width;
  ec_threads_run(w->g->threads, panels, 1 + PIECE_ELEMENTS / (width * (size_t)w->depth),
                 pack_panels, &p);
}

/* Releases packed lanes: block by block, so that a weight and its panels are not both in memory. */
static void release_lanes(const ec_gemm *g, const ec_gemm_side *side, int64_t first,
                          int64_t lanes) {
  const int64_t from = side->k == 1 ? first * side->lane : 0;
  if (side->data)
    ec_kept_packed(side->kept,
                   (const char *)side->data + (size_t)from * ec_dtype_size(g->dtype),
                   (size_t)(lanes * g->k), g->dtype);
}

/* Returns a side of which all is packed, if it is constant and there is memory for it. */
static const ec_kept_side *keep_side(const block *w, const ec_gemm_side *side, int64_t lanes,
                                     int64_t block_lanes, size_t width) {
  const ec_gemm *g = w->g;
  if (!side->kept) return NULL;
  const ec_kept_key key = {side->pack, side->data, side->lane,  side->k,  side->variant,
                           lanes,      g->k,       block_lanes, g->depth, width};
  const ec_kept_side *packed = ec_kept_find(side->kept, &key);
  if (packed) return packed;
  packed = ec_kept_add(side->kept, &key, g->micro->size);
  block part = *w;
  for (int64_t first = 0; packed && first < lanes; first += block_lanes) {
    int64_t count = ec_min_i64(block_lanes, lanes - first);
    for (part.k = 0; part.k < g->k; part.k += part.depth) {
      part.depth = ec_min_i64(g->depth, g->k - part.k);
      int64_t at = first * g->k + round_up(count, width) * part.k;
      pack_side(&part, side, first, count, width, packed_at(packed->panels, at, g->micro));
    }
    if (side->k == 1) release_lanes(g, side, first, count);
  }
  if (packed && side->k != 1) release_lanes(g, side, 0, lanes);
  return packed;
}

/* Returns the packed block of a side at w->k, from the kept side or packed into scratch memory. */
static void *packed_block(const block *w, const ec_gemm_side *side, const ec_kept_side *kept,
                          int64_t first, int64_t lanes, size_t width, void *scratch) {
  const ec_gemm *g = w->g;
  if (kept) return packed_at(kept->panels, first * g->k + round_up(lanes, width) * w->k, g->micro);
  pack_side(w, side, first, lanes, width, scratch);
  return scratch;
}

/* Stores a tile, line by line if C's columns (rows of the transposed product) form lines. */
static void store_tile(const ec_gemm *g, const ec_gemm_loops *loops, const ec_gemm_out *out,
                       const ec_gemm_tile *tile) {
  if (!out->line) {
    loops->store(out, tile);
    return;
  }
  ec_gemm_tile part = *tile;
  int64_t *first = g->swapped ? &part.row : &part.col;
  int64_t *count = g->swapped ? &part.rows : &part.cols;
  int64_t left = *count, stride = g->swapped ? out->row : out->col;
  size_t sums_step = g->swapped ? tile->stride : 1;
  while (left) {
    int64_t line = *first / out->line;
    ec_gemm_out to = *out;
    to.data = (char *)out->data +
              line * (out->next - out->line * stride) * (int64_t)ec_dtype_size(g->dtype);
    *count = ec_min_i64(left, (line + 1) * out->line - *first);
    loops->store(&to, &part);
    left -= *count;
    *first += *count;
    if (part.sums)
      part.sums = (const char *)part.sums + (size_t)*count * sums_step * g->micro->size;
  }
}

/* A panel of B: rows of distance `ldb`, or taps. */
typedef struct source {
  const void *b;
  size_t ldb;
  const ec_micro_taps *taps;
} source;

/* Computes one column of tiles: a panel of B stays in the first-level cache while A's are read. */
static void multiply_panel(const block *w, int64_t col, const source *from) {
  _Alignas(EC_ALIGN) char one_tile[EC_MICRO_TILE];
  const ec_gemm *g = w->g;
  const ec_micro *micro = g->micro;
  int64_t height = (int64_t)micro->rows;
  bool one_pass = g->k <= g->depth, last = w->k + w->depth >= g->k;
  size_t stride = one_pass ? micro->cols : (size_t)g->cols;
  for (int64_t r = 0; r < w->rows; r += height) {
    int64_t rows = ec_min_i64(height, w->rows - r);
    void *sums = one_pass ? one_tile : packed_at(g->sums, r * g->cols + col, micro);
    size_t step = (size_t)((rows - 1) * EC_MICRO_STEPS / height);
    const void *a = packed_at(w->packed_a, r * w->depth, micro);
    if (!EC_IS_SMALL && from->taps)
      w->taps[step]((size_t)w->depth, a, from->taps, sums, stride, w->k > 0);
    else
      micro->fn[step]((size_t)w->depth, a, from->b, from->ldb, sums, stride, w->k > 0);
    if (!last) continue;
    ec_gemm_tile tile = {sums, stride, w->row + r, w->col + col, rows,
                         ec_min_i64((int64_t)micro->cols, w->cols - col)};
    store_tile(g, w->loops, w->out, &tile);
  }
}

static void multiply_panels(void *user, size_t begin, size_t end) {
  const block *w = user;
  const ec_micro *micro = w->g->micro;
  int64_t width = (int64_t)micro->cols, last = ec_min_i64((int64_t)end * width, w->cols);
  ec_micro_taps taps;
  for (int64_t col = (int64_t)begin * width; col < last; col += width) {
    source from = {packed_at(w->packed_b, col * w->depth, micro), micro->cols, NULL};
    if (!EC_IS_SMALL && w->taps) {
      const ec_gemm_panel panel = {w->col + col, ec_min_i64(width, w->cols - col), w->k, w->depth};
      w->b->list(w->b, &panel, &taps);
      from.taps = &taps;
    } else if (w->in_place && w->cols - col >= width) {
      const char *b = (const char *)w->b->data;
      b += (size_t)(w->k * w->b->k + w->col + col) * micro->size;
      from = (source){b, (size_t)w->b->k, NULL};
    }
    multiply_panel(w, col, &from);
  }
}

static void multiply_block(block *w) {
  const size_t width = w->g->micro->cols;
  const size_t products = (size_t)w->rows * (size_t)w->depth * width; /* of one panel */
  const size_t grain = (PIECE_PRODUCTS + products / 2) / products; /* nearest */
  ec_threads_run(w->g->threads, ((size_t)w->cols + width - 1) / width, grain ? grain : 1,
                 multiply_panels, w);
}

static void run_block(block *w) {
  const ec_gemm *g = w->g;
  for (w->k = 0; w->k < g->k; w->k += w->depth) {
    w->depth = ec_min_i64(g->depth, g->k - w->k);
    if (!EC_IS_SMALL && w->taps) {
      w->packed_b = g->b; /* not read */
    } else if (w->in_place) {
      int64_t whole = w->cols / (int64_t)g->micro->cols * (int64_t)g->micro->cols;
      pack_side(w, w->b, w->col + whole, w->cols - whole, g->micro->cols,
                packed_at(g->b, whole * w->depth, g->micro));
      w->packed_b = g->b;
    } else {
      w->packed_b = packed_block(w, w->b, w->kept_b, w->col, w->cols, g->micro->cols, g->b);
    }
    w->packed_a = packed_block(w, w->a, w->kept_a, w->row, w->rows, g->micro->rows, g->a);
    multiply_block(w);
    if (w->k + w->depth >= g->k) break;
  }
}

typedef struct vector_call {
  const ec_gemm *g;
  const ec_gemm_loops *loops;
  const ec_gemm_side *a, *b;
  const ec_gemm_out *out;
  ec_gemm_vector fn;
  int64_t row;
} vector_call;

/* Computes columns [begin, end) of one row. */
static void run_columns(void *user, size_t begin, size_t end) {
  const vector_call *v = user;
  ec_gemm part = *v->g;
  ec_gemm_side b = *v->b;
  part.n = (int64_t)(end - begin);
  b.data = (const char *)b.data + (int64_t)begin * b.lane * (int64_t)ec_dtype_size(part.dtype);
  void *sums = packed_at(part.sums, (int64_t)begin, part.micro);
  v->fn(&part, v->a, &b, v->row, sums);
  ec_gemm_tile tile = {sums, (size_t)part.n, v->row, (int64_t)begin, 1, part.n};
  store_tile(v->g, v->loops, v->out, &tile);
}

/* A constant B that products of few rows read, in panels as soon as two recorded calls share it:
 * the steps of a recurrent layer. They read it from both ends in turn, so that the end of a step's
 * weights is still in the first-level cache for the next one. */
typedef struct ec_row_panels {
  struct ec_row_panels *next;
  const void *data;
  int64_t n, k, stride;
  float *panels; /* NULL: one call reads it, or there is no room */
  bool backwards;
} ec_row_panels;

static ec_row_panels *add_panels(const ec_gemm *g, const ec_gemm_side *b) {
  ec_record_memory *memory = g->record->memory;
  ec_row_panels *p = ec_record_alloc(memory, sizeof *p);
  if (!p) return NULL;
  *p = (ec_row_panels){memory->panels, b->data, g->n, g->k, b->k, NULL, false};
  memory->panels = p;
  return p;
}

/* Returns the panels of a recorded product; NULL: it has none. */
static ec_row_panels *find_panels(const ec_gemm *g, const ec_gemm_side *b, bool is_axpy) {
  enum { MAX_WEIGHTS_SEARCHED = 64 };
  if (!is_axpy || !b->kept || g->dtype != EC_FLOAT32) return NULL;
  const int64_t columns = ec_gemm_panel_columns(g);
  if (!columns) return NULL;
  ec_row_panels *p = g->record->memory->panels;
  for (size_t i = 0; p && i < MAX_WEIGHTS_SEARCHED; i++, p = p->next) {
    if (p->data != b->data || p->n != g->n || p->k != g->k || p->stride != b->k) continue;
    if (p->panels) return p;
    p->panels = ec_record_alloc(g->record->memory, (size_t)(columns * g->k) * sizeof *p->panels);
    if (p->panels) ec_gemm_pack_panels(g, b, p->panels);
    return p;
  }
  return add_panels(g, b);
}

/* The recorded rows of a product: operands by value, and memory for their sums after them. */
typedef struct vector_step {
  ec_recorded_loop step;
  vector_call v;
  ec_gemm g;
  ec_gemm_side a, b;
  ec_gemm_out out;
  ec_row_panels *panels;
  bool is_direct; /* the sums are stored to C as they are computed */
  _Alignas(EC_ALIGN) char sums[];
} vector_step;

static void sum_panels(const vector_step *s, const ec_row_panels *p) {
  const ec_gemm_out sums = {.data = s->g.sums, .row = s->g.n, .col = 1};
  if (ec_rows512_is_available(&s->g))
    ec_rows512_panels(&s->g, &s->a, &s->b, p->panels, p->backwards,
                      s->is_direct ? &s->out : &sums);
  else ec_gemm_sum_panels(&s->g, &s->a, &s->b, p->panels, p->backwards, s->g.sums);
}

static bool run_vector_step(const ec_recorded_loop *step) {
  const vector_step *s = (const vector_step *)step;
  ec_row_panels *p = s->panels;
  if (!p || !p->panels) {
    vector_call v = s->v;
    for (; v.row < s->g.m; v.row++) run_columns(&v, 0, (size_t)s->g.n);
    return true;
  }
  const ec_gemm_tile tile = {s->g.sums, (size_t)s->g.n, 0, 0, s->g.m, s->g.n};
  sum_panels(s, p);
  p->backwards = !p->backwards;
  if (!s->is_direct) store_tile(&s->g, s->v.loops, &s->out, &tile);
  return true;
}

/* True if C has contiguous rows, without factors, and nothing of A in its memory. */
static bool can_store_directly(const vector_call *v) {
  const ec_gemm *g = v->g;
  const ec_gemm_out *out = v->out;
  const float *a = v->a->data, *c = out->data;
  const bool is_plain = out->alpha.kind == EC_KIND_NONE && out->beta.kind == EC_KIND_NONE;
  const bool has_rows = out->col == 1 && !out->line && (!out->add || out->add_col <= 1);
  if (!is_plain || !has_rows || !ec_rows512_is_available(g) || out->row < 0) return false;
  const int64_t last = (g->m - 1) * v->a->lane + (g->k - 1) * v->a->k;
  return v->a->lane >= 0 && v->a->k >= 0 &&
         (a + last < c || c + (g->m - 1) * out->row + g->n <= a);
}

static void record_rows(const vector_call *v) {
  enum { MAX_COLUMNS = 8192 };
  const ec_gemm *g = v->g;
  const int64_t elements = g->m * g->n;
  if (g->n > MAX_COLUMNS) return;
  vector_step *s = ec_record_add(g->record, run_vector_step,
                                 sizeof *s + (size_t)elements * g->micro->size, elements);
  if (!s) return;
  s->g = *g;
  s->g.sums = s->sums;
  s->a = *v->a;
  s->b = *v->b;
  s->out = *v->out;
  s->v = *v;
  s->v.g = &s->g;
  s->v.a = &s->a;
  s->v.b = &s->b;
  s->v.out = &s->out;
  s->is_direct = can_store_directly(v);
  s->panels = find_panels(g, v->b, v->fn == v->loops->axpy);
}

/* Computes one or two rows. Returns false if the strides of A or B do not allow it. */
static bool run_vector(const ec_gemm *g, const ec_gemm_loops *loops, const ec_gemm_side *a,
                       const ec_gemm_side *b, const ec_gemm_out *out) {
  if (g->m > VECTOR_ROWS || g->n > g->room || a->pack || b->pack) return false;
  bool dot = b->k == 1 && a->k == 1 && !b->turned;
  if (!dot && b->lane != 1 && !b->turned) return false;
  vector_call v = {g, loops, a, b, out,
                   b->turned ? loops->turned : dot ? loops->dot : loops->axpy, 0};
  /* Whole cache lines. These products are bound by memory, so a thread needs fewer of them. */
  const size_t grain = (PIECE_PRODUCTS / 8 / (size_t)g->k / EC_ALIGN + 1) * EC_ALIGN;
  if (!EC_IS_SMALL && g->record && (!g->threads || (size_t)g->n <= grain)) record_rows(&v);
  for (; v.row < g->m; v.row++)
    ec_threads_run(g->threads, (size_t)g->n, grain, run_columns, &v);
  return true;
}

/* True if the product is zero because k or alpha is 0. */
static bool is_zero(const ec_gemm *g, const ec_gemm_out *out) {
  if (g->k == 0) return true;
  if (out->alpha.kind == EC_KIND_NONE) return false;
  bool whole = ec_is_integral(g->dtype);
  return whole ? ec_scalar_int(out->alpha) == 0 : ec_scalar_double(out->alpha) == 0;
}

void ec_gemm_run(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                 const ec_gemm_out *out) {
  const ec_gemm_loops *loops = &ec_gemm_loops_of[g->dtype];
  if (g->m == 0 || g->n == 0) return;
  ec_gemm_out transposed = *out;
  if (g->swapped) {
    const ec_gemm_side *side = a;
    a = b;
    b = side;
    transposed.row = out->col;
    transposed.col = out->row;
    transposed.add_row = out->add_col;
    transposed.add_col = out->add_row;
  }
  if (is_zero(g, out)) {
    ec_gemm_tile all = {NULL, 0, 0, 0, g->m, g->n};
    store_tile(g, loops, &transposed, &all);
    return;
  }
  if (g->reference) {
    loops->reference(g, a, b, &transposed);
    return;
  }
  if (run_vector(g, loops, a, b, &transposed)) return;
  block w = {.g = g, .loops = loops, .a = a, .b = b, .out = &transposed};
  w.in_place = loops->in_place && !b->pack && b->lane == 1 && g->m <= 2 * (int64_t)g->micro->rows;
  if (!EC_IS_SMALL && b->list) w.taps = ec_micro_find_taps(g->micro);
  w.kept_a = keep_side(&w, a, g->m, g->rows, g->micro->rows);
  if (!w.in_place) w.kept_b = keep_side(&w, b, g->n, g->cols, g->micro->cols);
  for (w.col = 0; w.col < g->n; w.col += g->cols) {
    w.cols = ec_min_i64(g->cols, g->n - w.col);
    for (w.row = 0; w.row < g->m; w.row += g->rows) {
      w.rows = ec_min_i64(g->rows, g->m - w.row);
      run_block(&w);
    }
  }
}
