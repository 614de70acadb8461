/* Transposed weights.
 *
 * The exporter writes a linear layer as a transposition of the weight and a product. A transposed
 * copy of a large weight is as much memory again, and the file's pages stay in memory, too, because
 * the copy reads them. Products read either order of dimensions, with the same bits. So if only
 * products read the transposition, they get a tensor with the memory of the weight and the
 * dim_order of columns. Smaller ones are copied: they stay in a cache, where the copy is faster.
 *
 * A traced call executes the instructions, with the memory that the file's plan gives them. */
#include "runtime/passes/turn.h"

#include <string.h>

enum {
  LEAST_BYTES = 1 << 20,
  LEAST_SIDE = 64,       /* of the matrix: products with fewer columns have other loops */
  MAX_DISTANCE = 1 << 12 /* instructions to the last reader */
};

/* Products that read a constant matrix, and the argument. */
static const struct reader {
  const char *op;
  size_t arg;
} readers[] = {{"aten::mm.out", 1}, {"aten::addmm.out", 2}};

static const struct reader *find_reader(const ec_instr *in) {
  for (size_t i = 0; in->op && !in->op->custom && i < sizeof readers / sizeof readers[0]; i++)
    if (strcmp(in->op->name, readers[i].op) == 0) return &readers[i];
  return NULL;
}

/* True for a matrix whose elements are the operand's, with rows and columns exchanged. A call that
 * does something else, or fails, has another shape or operator. */
static bool is_transposition(const ec_instr *in) {
  const char *const ops[] = {"aten::permute_copy.out", "aten::t_copy.out",
                             "aten::transpose_copy.int_out"};
  size_t i = 0;
  while (i < 3 && strcmp(in->op->name, ops[i]) != 0) i++;
  if (i == 3 || in->op->custom || in->args[0]->as.tensor->rank != 2) return false;
  if (i == 1) return true;
  const ec_value *list = in->args[1];
  const int64_t a = i == 0 ? (list->count == 2 ? ec_value_int(list->as.items[0]) : 0)
                           : ec_value_int(list);
  const int64_t b = i == 0 ? (list->count == 2 ? ec_value_int(list->as.items[1]) : 0)
                           : ec_value_int(in->args[2]);
  if (a < -2 || a > 1 || b < -2 || b > 1) return false;
  const int64_t first = a < 0 ? a + 2 : a, second = b < 0 ? b + 2 : b;
  return i == 0 ? first == 1 && second == 0 : first != second;
}

static bool is_large(const ec_tensor *from, const ec_tensor *to) {
  return from->dtype == to->dtype && from->rank == 2 && to->rank == 2 &&
         from->dynamism == EC_STATIC && from->data && ec_tensor_is_contiguous(from) &&
         ec_tensor_is_contiguous(to) && from->sizes[0] == to->sizes[1] &&
         from->sizes[1] == to->sizes[0] && from->sizes[0] >= LEAST_SIDE &&
         from->sizes[1] >= LEAST_SIDE && ec_tensor_nbytes(from) >= LEAST_BYTES;
}

/* True if an instruction has the value among its arguments, other than `but`. */
static bool has_value(const ec_instr *in, const ec_value *v, size_t but) {
  for (size_t i = 0; i < in->count; i++) {
    if (i != but && in->args[i] == v) return true;
    for (uint32_t k = 0; ec_is_tensor_list(in->args[i]) && k < in->args[i]->count; k++)
      if (in->args[i]->as.items[k] == v) return true;
  }
  return false;
}

static bool is_read_by(const ec_instr *in, const ec_value *v) {
  const struct reader *reader = find_reader(in);
  return reader && in->args[reader->arg] == v;
}

/* True if only products read the result, as their weight. */
static bool only_products_read(const ec_uses *uses, const ec_value *v, size_t at) {
  const size_t last = uses->rows[ec_use_index(uses, v)].last;
  if (last <= at || last - at > MAX_DISTANCE) return false;
  for (size_t i = at + 1; i <= last; i++) {
    const ec_instr *in = &uses->m->instrs[i];
    if (has_value(in, v, is_read_by(in, v) ? find_reader(in)->arg : SIZE_MAX)) return false;
  }
  return true;
}

/* Makes the tensor that products read. */
static ec_status make_turned(ec_method *m, const ec_instr *in, ec_value **out, ec_error *err) {
  const ec_tensor *from = in->args[0]->as.tensor, *to = in->writes[0]->as.tensor;
  const uint8_t columns[2] = {1, 0};
  ec_tensor *t;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *t, "a tensor", &t, err));
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof **out, "a tensor", out, err));
  EC_TRY(ec_tensor_init(t, ec_tensor_dtype(to), 2, to->sizes, columns, err));
  t->data = from->data;
  t->capacity = ec_tensor_nbytes(t);
  t->flags = EC_TENSOR_READONLY;
  **out = (ec_value){.kind = EC_KIND_TENSOR, .as.tensor = t};
  return EC_OK;
}

/* Puts a call with the turned weight on top of a product. */
static ec_status replace_weight(ec_method *m, size_t at, ec_value *turned, ec_error *err) {
  const ec_instr *in = &m->instrs[at];
  const size_t arg = find_reader(in)->arg;
  ec_instr *call;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *call, "an instruction", &call, err));
  *call = *in;
  EC_TRY(ec_arena_array(&m->arena, in->count, sizeof *call->args, "arguments", &call->args, err));
  EC_TRY(ec_arena_array(&m->arena, in->read_count, sizeof *call->reads, "arguments", &call->reads,
                        err));
  for (size_t i = 0; i < in->count; i++) call->args[i] = i == arg ? turned : in->args[i];
  for (size_t i = 0; i < in->read_count; i++)
    call->reads[i] = in->reads[i] == in->args[arg] ? turned : in->reads[i];
  const ec_step step = {.kind = EC_STEP_KernelCall, .pass = EC_PASS_fold, .first = (uint32_t)at,
                        .count = 1, .run = call};
  return ec_plan_add(m, step, false, err);
}

ec_status ec_turn_constant(const ec_uses *uses, size_t at, bool *done, ec_error *err) {
  ec_method *m = uses->m;
  const ec_instr *in = &m->instrs[at];
  const ec_value *v = in->writes[0];
  ec_value *turned;
  *done = is_transposition(in) && is_large(in->args[0]->as.tensor, v->as.tensor) &&
          only_products_read(uses, v, at);
  if (!*done) return EC_OK;
  EC_TRY(make_turned(m, in, &turned, err));
  ec_placement_of(m, v->as.tensor)->turned = turned;
  for (size_t i = at + 1; i <= uses->rows[ec_use_index(uses, v)].last; i++)
    if (is_read_by(&m->instrs[i], v)) EC_TRY(replace_weight(m, i, turned, err));
  return EC_OK;
}
