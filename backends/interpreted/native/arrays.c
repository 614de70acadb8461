/* Calls on tensors whose sizes may vary. */
#include "arrays.h"

#include "../rows.h"
#include "../translate.h"

uint32_t ecn_argument(const ecn_step *s, size_t i, ecn_array *out) {
  const ect_tensor *t = i < s->count ? ect_tensor_at(&s->g->program, s->args[i]) : NULL;
  if (!t) return ECN_REFUSE(s, "argument %zu is not a tensor", i);
  *out = (ecn_array){s->args[i], *t};
  return EC_BACKEND_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

ecn_size ecn_size_of(const ecn_array *a, uint32_t dimension) {
  return (ecn_size){a->t.sizes[dimension], a->t.varying >> dimension & 1u, a->value, dimension};
}

ecn_size ecn_size_number(int64_t number) { return (ecn_size){.bound = number}; }

static int64_t add_size(const ecn_step *s, const ecn_size *size) {
  ect_program *p = &s->g->program;
  if (!size->varies) return ect_add_int(p, size->bound);
  if (size->of == ECT_NO_VALUE) return ect_add_int(p, -1);
  const int64_t args[] = {size->of, ect_add_int(p, size->dimension), ect_add_int(p, 0)};
  ect_add_call(p, "aten::sym_size.int", args, 3, NULL);
  return args[2];
}

int64_t ecn_size_list(const ecn_step *s, const ecn_size *sizes, uint32_t rank) {
  int64_t items[ECT_MAX_RANK] = {0};
  for (uint32_t d = 0; d < rank; d++) items[d] = add_size(s, &sizes[d]);
  return ect_add_list(&s->g->program, ECT_INT_LIST, items, rank);
}

void ecn_set_shape(ect_tensor *t, const ecn_size *sizes, uint32_t rank) {
  t->rank = rank;
  t->varying = 0;
  for (uint32_t d = 0; d < rank; d++) {
    t->sizes[d] = sizes[d].bound;
    t->varying |= (uint32_t)sizes[d].varies << d;
  }
}

/* ---- calls ----------------------------------------------------------------------------------- */

uint32_t ecn_call(const ecn_step *s, const char *op, const int64_t *args, size_t count,
                  ecn_array *out) {
  out->t.role = ECT_COMPUTED;
  out->t.is_dynamic = out->t.varying;
  out->value = ect_add_tensor(&s->g->program, &out->t);
  return ect_call_op(s->g, op, args, count, &out->value, 1, NULL);
}

static uint32_t change_shape(const ecn_step *s, const char *op, ecn_array *a, const ecn_size *sizes,
                             uint32_t rank) {
  ecn_array out = *a;
  const int64_t args[] = {a->value, ecn_size_list(s, sizes, rank)};
  ecn_set_shape(&out.t, sizes, rank);
  EC_BACKEND_TRY(ecn_call(s, op, args, 2, &out));
  *a = out;
  return EC_BACKEND_OK;
}

uint32_t ecn_view(const ecn_step *s, ecn_array *a, const ecn_size *sizes, uint32_t rank) {
  return change_shape(s, "aten::view_copy.out", a, sizes, rank);
}

uint32_t ecn_expand(const ecn_step *s, ecn_array *a, const ecn_size *sizes, uint32_t rank) {
  return change_shape(s, "aten::expand_copy.out", a, sizes, rank);
}

uint32_t ecn_transpose(const ecn_step *s, ecn_array *a) {
  ect_program *p = &s->g->program;
  const uint32_t rank = a->t.rank;
  const int64_t args[] = {a->value, ect_add_int(p, rank - 2), ect_add_int(p, rank - 1)};
  const ecn_size turned[] = {ecn_size_of(a, rank - 1), ecn_size_of(a, rank - 2)};
  ecn_size sizes[ECT_MAX_RANK];
  ecn_array out = *a;
  for (uint32_t d = 0; d < rank; d++)
    sizes[d] = d + 2 < rank ? ecn_size_of(a, d) : turned[d + 2 - rank];
  ecn_set_shape(&out.t, sizes, rank);
  EC_BACKEND_TRY(ecn_call(s, "aten::transpose_copy.int_out", args, 3, &out));
  *a = out;
  return EC_BACKEND_OK;
}

void ecn_convert(const ecn_step *s, ecn_array *a, int32_t dtype) {
  a->value = ect_convert(&s->g->program, a->value, dtype);
  a->t.dtype = dtype;
}

uint32_t ecn_return(const ecn_step *s, const ecn_array *a) {
  ect_program *p = &s->g->program;
  ect_call *last = p->failed || !p->call_count ? NULL : &p->calls[p->call_count - 1];
  int64_t *result = last ? &p->items[last->first + last->count - 1] : NULL;
  if (!result || *result != a->value || a->t.dtype != ect_tensor_at(p, s->out)->dtype) {
    ect_add_copy(p, a->value, s->out, s->shown);
    return EC_BACKEND_OK;
  }
  *result = s->out;
  if (s->shown) last->node = *s->shown;
  return EC_BACKEND_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Makes a vector a matrix of one row, or of one column. */
static uint32_t as_matrix(const ecn_step *s, ecn_array *a, bool is_row) {
  const ecn_size length = ecn_size_of(a, 0), one = ecn_size_number(1);
  const ecn_size row[] = {one, length}, column[] = {length, one};
  return ecn_view(s, a, is_row ? row : column, 2);
}

/* Multiplies by a matrix: linear takes it transposed. */
static uint32_t by_matrix(const ecn_step *s, const ecn_array *a, ecn_array b, ecn_array *out) {
  const ecn_size columns = ecn_size_of(&b, 1);
  const uint32_t last = a->t.rank - 1;
  EC_BACKEND_TRY(ecn_transpose(s, &b));
  const int64_t args[] = {a->value, b.value};
  *out = *a;
  out->t.sizes[last] = columns.bound;
  out->t.varying = (a->t.varying & ~(1u << last)) | (uint32_t)columns.varies << last;
  return ecn_call(s, "aten::linear.out", args, 2, out);
}

/* Returns dimension `d` of a batch of `rank` dimensions, without the matrices' two. */
static ecn_size batch_size(const ecn_array *a, uint32_t d, uint32_t rank) {
  const uint32_t missing = rank + 2 - a->t.rank;
  return d < missing ? ecn_size_number(1) : ecn_size_of(a, d - missing);
}

static bool is_one(const ecn_size *size) { return size->bound == 1 && !size->varies; }

/* Broadcasts to a batch, and shows it as one dimension. */
static uint32_t as_batch(const ecn_step *s, ecn_array *a, ecn_size *batch, uint32_t rank) {
  bool expands = rank + 2 != a->t.rank;
  ecn_size all = {.bound = 1, .of = ECT_NO_VALUE};
  for (uint32_t d = 0; d < rank; d++) {
    const ecn_size own = batch_size(a, d, rank);
    expands |= is_one(&own) != is_one(&batch[d]);
    all.varies |= batch[d].varies;
    if (__builtin_mul_overflow(all.bound, batch[d].bound, &all.bound))
      return ECN_REFUSE(s, "too many elements");
  }
  batch[rank] = ecn_size_of(a, a->t.rank - 2);
  batch[rank + 1] = ecn_size_of(a, a->t.rank - 1);
  if (expands) EC_BACKEND_TRY(ecn_expand(s, a, batch, rank + 2));
  const ecn_size flat[] = {all, batch[rank], batch[rank + 1]};
  return rank == 1 ? (uint32_t)EC_BACKEND_OK : ecn_view(s, a, flat, 3);
}

static uint32_t by_batches(const ecn_step *s, ecn_array a, ecn_array b, ecn_array *out) {
  const uint32_t rank = (a.t.rank > b.t.rank ? a.t.rank : b.t.rank) - 2;
  const ecn_size rows = ecn_size_of(&a, a.t.rank - 2), columns = ecn_size_of(&b, b.t.rank - 1);
  ecn_size batch[ECT_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) {
    batch[d] = batch_size(&a, d, rank);
    if (is_one(&batch[d])) batch[d] = batch_size(&b, d, rank);
  }
  EC_BACKEND_TRY(as_batch(s, &a, batch, rank));
  EC_BACKEND_TRY(as_batch(s, &b, batch, rank));
  const int64_t args[] = {a.value, b.value};
  const ecn_size flat[] = {ecn_size_of(&a, 0), rows, columns};
  *out = a;
  ecn_set_shape(&out->t, flat, 3);
  EC_BACKEND_TRY(ecn_call(s, "aten::bmm.out", args, 2, out));
  batch[rank] = rows;
  batch[rank + 1] = columns;
  return rank == 1 ? (uint32_t)EC_BACKEND_OK : ecn_view(s, out, batch, rank + 2);
}

uint32_t ecn_matmul(const ecn_step *s, ecn_array a, ecn_array b, ecn_array *out) {
  const bool is_row = a.t.rank == 1, is_column = b.t.rank == 1;
  ecn_size sizes[ECT_MAX_RANK];
  uint32_t rank = 0;
  if (!a.t.rank || !b.t.rank) return ECN_REFUSE(s, "an operand has no dimensions");
  if (is_row) EC_BACKEND_TRY(as_matrix(s, &a, true));
  if (is_column) EC_BACKEND_TRY(as_matrix(s, &b, false));
  if (b.t.rank == 2) EC_BACKEND_TRY(by_matrix(s, &a, b, out));
  else EC_BACKEND_TRY(by_batches(s, a, b, out));
  if (!is_row && !is_column) return EC_BACKEND_OK;
  for (uint32_t d = 0; d < out->t.rank; d++)
    if (!(is_row && d + 2 == out->t.rank) && !(is_column && d + 1 == out->t.rank))
      sizes[rank++] = ecn_size_of(out, d);
  return ecn_view(s, out, sizes, rank);
}
