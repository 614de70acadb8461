/* Operators that move elements. The memory plan of the flow may put the parts of a tensor into the
 * tensor's own memory (`_nop`): moving an element onto itself is allowed. */
#include "move.h"

#include <string.h>

uint32_t cad_copy(const cad_call *c) {
  const cad_tensor *in, *out;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "src", CAD_ANY, -1, &in));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, c->count - 1, EC_ARG_SET(in->dtype), in->rank, in->sizes, &out));
  if (in->nbytes) memmove(out->data, in->data, in->nbytes);
  return EC_BACKEND_OK;
}

uint32_t cad_contiguous(const cad_call *c) {
  if (c->args[1].as.i)
    return EC_ARG_FAIL(c, "'memory_format' is %lld, expected 0: contiguous",
                       (long long)c->args[1].as.i);
  return cad_copy(c);
}

/* A part of a tensor along a dimension: `rows` pieces of `size` bytes. */
typedef struct part {
  int64_t rows, size;
  uint8_t *to;
  const uint8_t *from;
  int64_t by_to, by_from;
} part;

static void part_move(const part *p) {
  for (int64_t row = 0; p->size && row < p->rows; row++)
    memmove(p->to + row * p->by_to, p->from + row * p->by_from, (size_t)p->size);
}

/* Sets rows, and the bytes of one element of dimension `dim` with all that follows. */
static int64_t part_unit(const cad_tensor *t, size_t dim, part *p) {
  int64_t unit = (int64_t)ec_backend_dtype_size(t->dtype);
  p->rows = 1;
  for (size_t d = 0; d < t->rank; d++)
    if (d < dim) p->rows *= t->sizes[d];
    else if (d > dim) unit *= t->sizes[d];
  return unit;
}

/* ---- cat --------------------------------------------------------------------------------- */

/* Checks input `k` of the list and adds its size in dimension `dim`. */
static uint32_t cat_add(const cad_call *c, size_t k, size_t dim, const cad_tensor *first,
                        int64_t *total) {
  const ec_backend_arg *item = &c->args[0].as.list.items[k];
  const cad_tensor *t = &item->as.tensor;
  bool same = item->kind == EC_BACKEND_TENSOR && t->dtype == first->dtype &&
              t->rank == first->rank && ec_arg_is_row_major(t);
  for (size_t d = 0; same && d < first->rank; d++)
    same = d == dim || t->sizes[d] == first->sizes[d];
  if (!same || __builtin_add_overflow(*total, t->sizes[dim], total))
    return EC_ARG_FAIL(c, "tensor %zu does not fit the first one", k);
  return EC_BACKEND_OK;
}

uint32_t cad_cat(const cad_call *c) {
  const size_t count = c->args[0].as.list.count;
  const ec_backend_arg *items = c->args[0].as.list.items;
  const cad_tensor *out;
  int64_t sizes[CAD_RANK], total = 0, at = 0;
  size_t dim;
  if (!count || items[0].kind != EC_BACKEND_TENSOR)
    return EC_ARG_FAIL(c, "there are %zu tensors, expected 1 or more", count);
  const cad_tensor *first = &items[0].as.tensor;
  EC_BACKEND_TRY(cad_dim(c, 1, first->rank, &dim));
  for (size_t k = 0; k < count; k++) EC_BACKEND_TRY(cat_add(c, k, dim, first, &total));
  for (size_t d = 0; d < first->rank; d++) sizes[d] = d == dim ? total : first->sizes[d];
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 2, EC_ARG_SET(first->dtype), first->rank, sizes, &out));
  for (size_t k = 0; k < count; k++) {
    const cad_tensor *t = &items[k].as.tensor;
    part p;
    const int64_t unit = part_unit(t, dim, &p);
    p.size = p.by_from = unit * t->sizes[dim];
    p.by_to = unit * total;
    p.from = t->data;
    p.to = (uint8_t *)out->data + at;
    part_move(&p);
    at += p.size;
  }
  return EC_BACKEND_OK;
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Moves elements start, start + step, ... of dimension `dim` into an output of `count` elements in
 * that dimension, or without the dimension. */
static uint32_t part_run(const cad_call *c, ec_backend_arg *arg, size_t dim, int64_t start,
                         int64_t count, int64_t step, bool drops) {
  const cad_tensor *in = &c->args[0].as.tensor;
  int64_t sizes[CAD_RANK];
  size_t rank = 0;
  part p;
  for (size_t d = 0; d < in->rank; d++)
    if (d != dim) sizes[rank++] = in->sizes[d];
    else if (!drops) sizes[rank++] = count;
  EC_BACKEND_TRY(c->host->resize(c->call, arg, rank, sizes));
  const cad_tensor *out = &arg->as.tensor;
  if (out->dtype != in->dtype)
    return EC_ARG_FAIL(c, "'out' has ScalarType %d, the input %d", out->dtype, in->dtype);
  if (!ec_arg_is_row_major(out)) return EC_ARG_FAIL(c, "'out' is not contiguous");
  if (!out->nbytes) return EC_BACKEND_OK;
  p.size = part_unit(in, dim, &p);
  p.by_from = p.size * in->sizes[dim];
  p.by_to = p.size * count;
  const int64_t unit = p.size;
  if (step == 1) p.size *= count;
  for (int64_t k = 0; k < (step == 1 ? 1 : count); k++) {
    p.from = (const uint8_t *)in->data + (start + k * step) * unit;
    p.to = (uint8_t *)out->data + k * unit;
    part_move(&p);
  }
  return EC_BACKEND_OK;
}

uint32_t cad_select(const cad_call *c) {
  const cad_tensor *in;
  size_t dim;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "self", CAD_ANY, -1, &in));
  EC_BACKEND_TRY(cad_dim(c, 1, in->rank, &dim));
  const int64_t size = in->sizes[dim], index = c->args[2].as.i;
  if (index < -size || index >= size)
    return EC_ARG_FAIL(c, "'index' is %lld for %lld elements", (long long)index, (long long)size);
  return part_run(c, &c->args[3], dim, index < 0 ? index + size : index, 1, 1, true);
}

/* Reads an optional bound of a slice, clamped to [0, size]. */
static int64_t slice_bound(const ec_backend_arg *arg, int64_t size, int64_t otherwise) {
  if (arg->kind != EC_BACKEND_INT) return otherwise;
  const int64_t value = arg->as.i < 0 ? arg->as.i + size : arg->as.i;
  return value < 0 ? 0 : value > size ? size : value;
}

uint32_t cad_slice(const cad_call *c) {
  const cad_tensor *in;
  size_t dim;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "self", CAD_ANY, -1, &in));
  EC_BACKEND_TRY(cad_dim(c, 1, in->rank, &dim));
  const int64_t size = in->sizes[dim], step = c->args[4].as.i;
  const int64_t start = slice_bound(&c->args[2], size, 0);
  const int64_t end = slice_bound(&c->args[3], size, size);
  if (step < 1) return EC_ARG_FAIL(c, "'step' is %lld, expected 1 or more", (long long)step);
  const int64_t count = end > start ? (end - start - 1) / step + 1 : 0;
  return part_run(c, &c->args[5], dim, start, count, step, false);
}

/* Moves the input into the outputs, the first `longer` of which have one element more than `size`;
 * the last one has what is left. */
static uint32_t split_run(const cad_call *c, size_t dim, int64_t size, int64_t longer) {
  const ec_backend_arg *outs = &c->args[3];
  const int64_t all = c->args[0].as.tensor.sizes[dim];
  int64_t start = 0;
  for (size_t k = 0; k < outs->as.list.count; k++) {
    const int64_t wanted = size + ((int64_t)k < longer);
    const int64_t count = wanted < all - start ? wanted : all - start;
    EC_BACKEND_TRY(part_run(c, &outs->as.list.items[k], dim, start, count, 1, false));
    start += count;
  }
  return EC_BACKEND_OK;
}

/* Reads input, number of parts and dimension, the arguments 0 to 2. */
static uint32_t split_read(const cad_call *c, int64_t *parts, size_t *dim) {
  const cad_tensor *in;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "self", CAD_ANY, -1, &in));
  EC_BACKEND_TRY(cad_dim(c, 2, in->rank, dim));
  *parts = c->args[1].as.i;
  if (*parts >= 1) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "there are %lld parts, expected 1 or more", (long long)*parts);
}

static uint32_t split_count(const cad_call *c, int64_t expected) {
  const size_t outputs = c->args[3].as.list.count;
  if ((int64_t)outputs == expected) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "there are %zu outputs, expected %lld", outputs, (long long)expected);
}

uint32_t cad_chunk(const cad_call *c) {
  int64_t parts;
  size_t dim;
  EC_BACKEND_TRY(split_read(c, &parts, &dim));
  const int64_t all = c->args[0].as.tensor.sizes[dim];
  const int64_t size = all ? (all - 1) / parts + 1 : 0;
  EC_BACKEND_TRY(split_count(c, all ? (all - 1) / size + 1 : parts));
  return split_run(c, dim, size, 0);
}

uint32_t cad_tensor_split(const cad_call *c) {
  int64_t parts;
  size_t dim;
  EC_BACKEND_TRY(split_read(c, &parts, &dim));
  EC_BACKEND_TRY(split_count(c, parts));
  const int64_t all = c->args[0].as.tensor.sizes[dim];
  return split_run(c, dim, all / parts, all % parts);
}
