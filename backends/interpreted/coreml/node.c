/* Arguments and results of operations, and their calls. */
#include "node.h"

#include "../translate.h"

uint32_t ecm_refuse(ecm_node *n, const char *why) {
  return ect_refuse(n->g, EC_BACKEND_NOT_SUPPORTED, "%s", why);
}

/* Finds a link by name, of `count`; NULL: none. */
static const ect_link *find_link(const ect_link *links, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (ect_text_is(links[i].name, name)) return &links[i];
  return NULL;
}

static const ect_link *find_input(const ecm_node *n, const char *name) {
  return find_link(ect_inputs(n->g, n->node), n->node->input_count, name);
}

uint32_t ecm_argument(ecm_node *n, const char *name, const ect_operand **out) {
  const ect_link *link = find_input(n, name);
  *out = link ? &n->g->operands[link->operand] : NULL;
  if (*out && (*out)->kind == ECT_TENSOR_LIST) {
    if (!(*out)->count) return ecm_refuse(n, "an argument has no value");
    *out = &n->g->operands[n->g->items[(*out)->first]];
  }
  if (*out && (*out)->fault) return ect_refuse(n->g, (*out)->status, "%s", (*out)->fault);
  return EC_BACKEND_OK;
}

uint32_t ecm_use(ecm_node *n, const ect_operand *o, int64_t *out) {
  return ect_use(n->g, (uint32_t)(o - n->g->operands), out);
}

uint32_t ecm_constant(ecm_node *n, const char *name, ect_operand *out, bool *exists) {
  const ect_link *link = find_link(ect_attributes(n->g, n->node), n->node->attribute_count, name);
  const ect_operand *o = link ? &n->g->operands[link->operand] : NULL;
  if (!o) EC_BACKEND_TRY(ecm_argument(n, name, &o));
  *exists = o != NULL;
  if (!o) return EC_BACKEND_OK;
  *out = *o;
  if (o->fault) return ect_refuse(n->g, o->status, "%s", o->fault);
  return o->data && o->kind == ECT_TENSOR
             ? (uint32_t)EC_BACKEND_OK
             : ect_refuse(n->g, EC_BACKEND_INVALID_PROGRAM, "%s is not constant", name);
}

uint32_t ecm_input(ecm_node *n, const char *name, int64_t *out) {
  const ect_operand *o = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &o));
  if (!o) return ect_refuse_as(n->g, EC_BACKEND_INVALID_PROGRAM, " has no argument %s", name);
  return ecm_use(n, o, out);
}

uint32_t ecm_number(ecm_node *n, const char *name, double otherwise, double *out) {
  const ect_operand *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *out = otherwise;
  if (!v) return EC_BACKEND_OK;
  if (!v->data || v->kind == ECT_STRING || ect_element_count(v) != 1)
    return ect_refuse(n->g, EC_BACKEND_NOT_SUPPORTED, "argument %s is not one constant number",
                      name);
  *out = ect_element_at(v, 0);
  return EC_BACKEND_OK;
}

uint32_t ecm_numbers(ecm_node *n, const char *name, int64_t *out, size_t room, size_t *count) {
  const ect_operand *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *count = 0;
  if (!v) return EC_BACKEND_OK;
  *count = ect_element_count(v);
  const bool is_list = v->data && (v->dtype == ECM_INT32 || v->dtype == ECM_BOOL);
  if (!is_list || *count > room)
    return ect_refuse(n->g, EC_BACKEND_NOT_SUPPORTED,
                      "argument %s is not a list of at most %zu constant ints or bools", name,
                      room);
  for (size_t i = 0; i < *count; i++) out[i] = ecm_to_int(ect_element_at(v, i));
  return EC_BACKEND_OK;
}

bool ecm_text_is(ecm_node *n, const char *name, const char *text, bool otherwise) {
  const ect_operand *v = NULL;
  if (ecm_argument(n, name, &v) != EC_BACKEND_OK || !v) return otherwise;
  return v->kind == ECT_STRING &&
         ect_text_is((ect_text){v->data, v->data_size}, text);
}

int64_t ecm_add_like(ecm_node *n, const ect_tensor *like, int32_t dtype) {
  return ect_add_like(&n->g->program, like, dtype);
}

uint32_t ecm_typed(ecm_node *n, const char *name, int64_t *id, ect_tensor *out) {
  *out = (ect_tensor){0};
  EC_BACKEND_TRY(ecm_input(n, name, id));
  const ect_tensor *t = ect_tensor_at(&n->g->program, *id);
  if (!t) return ecm_refuse(n, "an argument is not a tensor");
  *out = *t;
  return EC_BACKEND_OK;
}

/* Reads an element of a computed tensor of rank 0 or 1 as a number of the program. */
static uint32_t read_element(ecm_node *n, int64_t tensor, const ect_tensor *t, size_t i,
                             int64_t *out) {
  ect_program *p = &n->g->program;
  const ect_tensor scalar = {.dtype = t->dtype};
  if (t->rank == 1) {
    const int64_t args[] = {tensor, ect_add_int(p, 0), ect_add_int(p, (int64_t)i)};
    EC_BACKEND_TRY(ecm_step(n, "aten::select_copy.int_out", args, 3, &scalar, &tensor));
  }
  *out = ect_add_int(p, 0);
  const int64_t args[] = {tensor, *out};
  ect_add_call(p, "aten::_local_scalar_dense", args, 2, NULL);
  return EC_BACKEND_OK;
}

uint32_t ecm_ints(ecm_node *n, const char *name, int64_t *ids, size_t room, size_t *count) {
  const ect_operand *v = NULL;
  int64_t numbers[ECM_MAX_VALUES], tensor = 0;
  EC_BACKEND_TRY(ecm_argument(n, name, &v));
  *count = 0;
  if (!v) return EC_BACKEND_OK;
  if (v->data) {
    EC_BACKEND_TRY(ecm_numbers(n, name, numbers, room, count));
    for (size_t i = 0; i < *count; i++) ids[i] = ect_add_int(&n->g->program, numbers[i]);
    return EC_BACKEND_OK;
  }
  const ect_tensor t = ect_type_of(v);
  *count = t.rank ? (size_t)t.sizes[0] : 1;
  if (t.dtype != EC_DTYPE_INT32 || t.rank > 1 || v->unknown || *count > room)
    return ect_refuse(n->g, EC_BACKEND_NOT_SUPPORTED,
                      "argument %s is not a list of at most %zu ints", name, room);
  EC_BACKEND_TRY(ecm_use(n, v, &tensor));
  for (size_t i = 0; i < *count; i++) EC_BACKEND_TRY(read_element(n, tensor, &t, i, &ids[i]));
  return EC_BACKEND_OK;
}

uint32_t ecm_list(ecm_node *n, const char *name, int64_t *ids, size_t room, size_t *count) {
  const ect_link *link = find_input(n, name);
  const ect_operand *o = link ? &n->g->operands[link->operand] : NULL;
  const bool is_list = o && o->kind == ECT_TENSOR_LIST;
  if (!o) return ect_refuse_as(n->g, EC_BACKEND_INVALID_PROGRAM, " has no argument %s", name);
  *count = is_list ? o->count : 1;
  if (!*count) return ecm_refuse(n, "an argument has no values");
  if (*count > room) return ecm_refuse(n, "an argument has too many values");
  for (size_t i = 0; i < *count; i++)
    EC_BACKEND_TRY(ect_use(n->g, is_list ? n->g->items[o->first + i] : link->operand, &ids[i]));
  return EC_BACKEND_OK;
}

uint32_t ecm_axis(ecm_node *n, const char *name, int64_t otherwise, uint32_t rank, int64_t *out) {
  double axis = 0;
  EC_BACKEND_TRY(ecm_number(n, name, (double)otherwise, &axis));
  if (axis < 0) axis += rank;
  if (!(axis >= 0 && axis < (rank ? rank : 1))) return ecm_refuse(n, "axis is out of range");
  *out = (int64_t)axis;
  return EC_BACKEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

uint32_t ecm_call_op(ecm_node *n, const char *op, const int64_t *args, size_t count,
                     const int64_t *outs, size_t out_count, bool is_shown) {
  const ec_backend_node node = {n->node->number, n->name, 0};
  return ect_call_op(n->g, op, args, count, outs, out_count, is_shown ? &node : NULL);
}

uint32_t ecm_step(ecm_node *n, const char *op, const int64_t *args, size_t count,
                  const ect_tensor *like, int64_t *out) {
  const ect_tensor *type = like ? like : &n->type;
  const int64_t result = ecm_add_like(n, type, type->dtype);
  EC_BACKEND_TRY(ecm_call_op(n, op, args, count, &result, 1, false));
  *out = result;
  return EC_BACKEND_OK;
}

uint32_t ecm_finish(ecm_node *n, const char *op, const int64_t *args, size_t count) {
  return ecm_call_op(n, op, args, count, &n->result, 1, true);
}

/* ---- results --------------------------------------------------------------------------------- */

uint32_t ecm_results(ecm_node *n, int64_t *ids, size_t *count) {
  *count = n->node->output_count;
  if (*count > ECM_MAX_VALUES) return ecm_refuse(n, "more than 64 results");
  for (size_t i = 0; i < *count; i++)
    EC_BACKEND_TRY(ect_use(n->g, ect_outputs(n->g, n->node)[i].operand, &ids[i]));
  return EC_BACKEND_OK;
}
