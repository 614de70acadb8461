/* Operators that move elements: transpose and pad. */
#include "move.h"

#include "loop.h"

#include <string.h>

typedef struct move {
  const char *from;
  char *to;
  size_t size; /* bytes of an element */
} move;

static void move_row(const void *user, const cm_row *row) {
  const move *p = user;
  const ptrdiff_t size = (ptrdiff_t)p->size;
  const char *from = p->from + row->at[CM_A] * size;
  char *to = p->to + row->at[CM_OUT] * size;
  if (row->step[CM_A] == 1 && row->step[CM_OUT] == 1) {
    memcpy(to, from, (size_t)row->n * p->size);
    return;
  }
  for (int64_t i = 0; i < row->n; i++)
    memcpy(to + i * row->step[CM_OUT] * size, from + i * row->step[CM_A] * size, p->size);
}

/* Sets the bytes of an element; both tensors must have the same dtype. */
static uint32_t move_size(const cm_call *c, size_t out, size_t *size) {
  const ec_backend_tensor *x = cm_tensor(c, 0), *to = cm_tensor(c, out);
  *size = x->dtype == EC_DTYPE_INT8 ? 1 : x->dtype == EC_DTYPE_INT16 ? 2 : 4;
  if (*size == 4 && x->dtype != EC_DTYPE_INT32)
    EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_FLOAT32, -1));
  if (x->dtype != to->dtype)
    return EC_ARG_FAIL(c, "'input' has ScalarType %d and 'out' %d, expected the same", x->dtype,
                       to->dtype);
  return EC_BACKEND_OK;
}

uint32_t cm_transpose(const cm_call *c) {
  const ec_backend_tensor *x = cm_tensor(c, 0);
  const ec_backend_arg *perm = &c->args[1];
  cm_loop loop = {.rank = x->rank};
  move p = {.from = x->data};
  uint32_t seen = 0;
  EC_BACKEND_TRY(move_size(c, 2, &p.size));
  if (perm->as.list.count != x->rank)
    return EC_ARG_FAIL(c, "'perm' has %zu items, expected %u", perm->as.list.count,
                       (unsigned)x->rank);
  for (size_t d = 0; d < x->rank; d++) {
    const int64_t from = perm->as.list.items[d].as.i;
    if (from < 0 || from >= x->rank || seen >> from & 1)
      return EC_ARG_FAIL(c, "'perm' has the item %lld, expected each dimension once",
                         (long long)from);
    seen |= 1u << from;
    loop.sizes[d] = x->sizes[from];
    loop.steps[CM_A][d] = x->strides[from];
  }
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[2], loop.rank, loop.sizes));
  const ec_backend_tensor *to = cm_tensor(c, 2);
  for (size_t d = 0; d < loop.rank; d++) loop.steps[CM_OUT][d] = to->strides[d];
  p.to = to->data;
  cm_loop_run(&loop, move_row, &p);
  return EC_BACKEND_OK;
}

/* ---- pad --------------------------------------------------------------------------------- */

enum { PAD_RANK = 4 };

/* Returns whether the pads of a tensor are in the order of memory [N, H, W, C]. With one channel or
 * one pixel the two orders are the same memory, which the exporter takes for channels-last. */
static bool pad_is_nhwc(const ec_backend_tensor *x) {
  if (x->rank != 4) return false;
  if (x->sizes[1] == 1 || (x->sizes[2] == 1 && x->sizes[3] == 1)) return true;
  return x->dim_order[0] == 0 && x->dim_order[1] == 2;
}

/* Reads the pads of each dimension, which stand at the end of lists of four. */
static uint32_t pad_read(const cm_call *c, size_t i, const char *name, int64_t pads[PAD_RANK]) {
  static const size_t order[] = {0, 3, 1, 2};
  const ec_backend_tensor *x = cm_tensor(c, 0);
  const ec_backend_arg *list = &c->args[i];
  const bool nhwc = pad_is_nhwc(x);
  if (list->as.list.count != PAD_RANK)
    return EC_ARG_FAIL(c, "'%s' has %zu items, expected 4", name, list->as.list.count);
  for (size_t d = 0; d < x->rank; d++) {
    const size_t at = PAD_RANK - x->rank + d;
    pads[d] = list->as.list.items[nhwc ? order[at] : at].as.i;
    if (pads[d] < 0 || pads[d] > INT32_MAX)
      return EC_ARG_FAIL(c, "'%s' has %lld for dimension %zu, expected 0 to %d", name,
                         (long long)pads[d], d, INT32_MAX);
  }
  return EC_BACKEND_OK;
}

/* Writes the value to all elements of a dtype. */
static void pad_fill(const ec_backend_tensor *to, size_t size, int32_t value) {
  const size_t n = to->nbytes / size;
  for (size_t i = 0; i < n; i++) {
    if (to->dtype == EC_DTYPE_INT8) ((int8_t *)to->data)[i] = (int8_t)value;
    if (to->dtype == EC_DTYPE_INT16) ((int16_t *)to->data)[i] = (int16_t)value;
    if (to->dtype == EC_DTYPE_INT32) ((int32_t *)to->data)[i] = value;
    if (to->dtype == EC_DTYPE_FLOAT32) ((float *)to->data)[i] = (float)value;
  }
}

uint32_t cm_pad(const cm_call *c) {
  const ec_backend_tensor *x = cm_tensor(c, 0);
  int64_t before[PAD_RANK], after[PAD_RANK], sizes[PAD_RANK];
  cm_loop loop = {.rank = x->rank};
  move p = {.from = x->data};
  int32_t value;
  EC_BACKEND_TRY(move_size(c, 4, &p.size));
  if (x->rank > PAD_RANK)
    return EC_ARG_FAIL(c, "'input' has %u dimensions, expected at most 4", (unsigned)x->rank);
  EC_BACKEND_TRY(pad_read(c, 1, "pre_pad", before));
  EC_BACKEND_TRY(pad_read(c, 2, "post_pad", after));
  EC_BACKEND_TRY(cm_int32(c, 3, "pad_value", &value));
  for (size_t d = 0; d < loop.rank; d++) {
    loop.sizes[d] = x->sizes[d];
    loop.steps[CM_A][d] = x->strides[d];
    sizes[d] = x->sizes[d] + before[d] + after[d];
  }
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[4], loop.rank, sizes));
  const ec_backend_tensor *to = cm_tensor(c, 4);
  int64_t first = 0;
  for (size_t d = 0; d < loop.rank; d++) {
    loop.steps[CM_OUT][d] = to->strides[d];
    first += before[d] * to->strides[d];
  }
  pad_fill(to, p.size, value);
  p.to = to->data;
  if (to->nbytes) p.to += first * (int64_t)p.size;
  cm_loop_run(&loop, move_row, &p);
  return EC_BACKEND_OK;
}
