/* The graph as text: tensors, and the calls that a trace reports, with their numbers. Nothing is
 * translated. */
#include "describe.h"

#include "../show.h"
#include "call.h"
#include "fields.h"

enum { MAX_RANK = 16 };

/* ---- values ---------------------------------------------------------------------------------- */

/* Integers of 8 bits that are computed are quantised values. */
static const char *dtype_name(int32_t dtype, bool is_computed) {
  return is_computed && dtype == EC_DTYPE_INT8 ? "qint8" : ect_show_dtype(dtype);
}

/* Storage and layout on the device, which do not change a value. */
static void add_storage(ect_note *t, ec_fb_table table) {
  static const char *const storages[] = {"buffer", "3D texture", "2D texture"};
  static const char *const layouts[] = {"width-packed",   "height-packed",  "channels-packed",
                                        "int8 4W4C",      "int8 4H4W",      "int8 4W",
                                        "int8 4C",        "",               "int8 4C1W",
                                        "int8 convolution"};
  const uint64_t storage = ec_fb_get(table, ECV_VkTensor_storage_type, 1, 255);
  const uint64_t layout = ec_fb_get(table, ECV_VkTensor_memory_layout, 1, 255);
  if (storage < sizeof storages / sizeof storages[0]) ect_note_add(t, "%s", storages[storage]);
  if (layout < sizeof layouts / sizeof layouts[0]) ect_note_add(t, "%s", layouts[layout]);
}

static void show_tensor(const ecv_graph *g, uint32_t id, ec_fb_table table, ect_show *s) {
  int64_t sizes[MAX_RANK];
  const ec_fb_vec dims = ec_fb_vector(table, ECV_VkTensor_dims);
  const int32_t dtype = ecv_scalar_type(ec_fb_u8(table, ECV_VkTensor_datatype));
  const ecv_payload *p = &g->payload;
  const bool prepacked = g->sources[id] >= 0;
  const int32_t constant =
      ec_fb_i32(prepacked ? ecv_value_table(p, g->sources[id]) : table, ECV_VkTensor_constant_id);
  size_t bytes = ec_backend_dtype_size(dtype);
  for (uint32_t d = 0; d < dims.count && d < MAX_RANK; d++) {
    sizes[d] = (uint32_t)ec_fb_vec_i32(dims, d);
    if (__builtin_mul_overflow(bytes, (size_t)sizes[d], &bytes)) bytes = 0;
  }
  if (constant >= 0 && (uint32_t)constant < p->constants.count) {
    const char *key = ec_fb_string(ec_fb_vec_table(p->constants, (uint32_t)constant),
                                   ECV_VkBytes_named_key);
    if (key && *key) ect_note_add(&s->note, "named data %.80s", key);
  }
  if (prepacked && g->written[id]) ect_note_add(&s->note, "state");
  add_storage(&s->note, table);
  const bool is_constant = constant >= 0 && !g->written[id];
  ect_show_tensor(s,
                  &(ec_backend_inner_value){.id = id, .constant = is_constant,
                                            .dtype = dtype_name(dtype, !is_constant),
                                            .rank = dims.count < MAX_RANK ? dims.count : MAX_RANK,
                                            .nbytes = bytes, .sizes = sizes});
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void add_tensors(const ecv_payload *p, int32_t id, ect_operands *o) {
  const uint8_t type = ecv_value_type(p, id);
  if (type == ECV_TENSOR) ect_show_operand(o, (uint32_t)id);
  if (type != ECV_VALUE_LIST) return;
  const ec_fb_vec items = ec_fb_vector(ecv_value_table(p, id), ECV_ValueList_items);
  for (uint32_t i = 0; i < items.count && i < ECT_MAX_SHOWN; i++)
    if (ecv_value_type(p, ec_fb_vec_i32(items, i)) == ECV_TENSOR)
      ect_show_operand(o, (uint32_t)ec_fb_vec_i32(items, i));
}

static void add_ints(ect_note *t, ec_fb_vec items) {
  int64_t numbers[ECT_MAX_SHOWN];
  const uint32_t count = items.count < ECT_MAX_SHOWN ? items.count : ECT_MAX_SHOWN;
  for (uint32_t i = 0; i < count; i++) numbers[i] = ec_fb_vec_i64(items, i);
  ect_note_list(t, "", numbers, count);
}

static const char *text_of(ec_fb_table table) {
  const char *found = ec_fb_string(table, ECV_String_string_val);
  return found ? found : "";
}

/* Appends an argument that is not a tensor. */
static void add_parameter(const ecv_payload *p, int32_t id, ect_note *t) {
  const ec_fb_table table = ecv_value_table(p, id);
  switch (ecv_value_type(p, id)) {
  case ECV_INT: ect_note_add(t, "%lld", (long long)ec_fb_i64(table, ECV_Int_int_val)); break;
  case ECV_DOUBLE: ect_note_add(t, "%g", ec_fb_f64(table, ECV_Double_double_val)); break;
  case ECV_BOOL:
    ect_note_add(t, "%s", ec_fb_bool(table, ECV_Bool_bool_val) ? "True" : "False");
    break;
  case ECV_INT_LIST: add_ints(t, ec_fb_vector(table, ECV_IntList_items)); break;
  case ECV_STRING: ect_note_add(t, "'%.40s'", text_of(table)); break;
  case ECV_SYM_INT: ect_note_add(t, "s%d", (int)id); break;
  default: break;
  }
}

static void show_call(const ecv_payload *p, const ecv_node *node, ect_show *s) {
  for (uint32_t i = 0; i + 1 < node->args.count && i < ECT_MAX_SHOWN; i++) {
    add_tensors(p, ec_fb_vec_i32(node->args, i), &s->inputs);
    add_parameter(p, ec_fb_vec_i32(node->args, i), &s->note);
  }
  if (node->args.count)
    add_tensors(p, ec_fb_vec_i32(node->args, node->args.count - 1), &s->outputs);
  ect_show_node(s, node->number, node->name ? node->name : "");
}

uint32_t ecv_describe(void *graph, const ec_backend_visitor *visitor) {
  ecv_graph *g = graph;
  const ecv_payload *p = &g->payload;
  ect_show s;
  EC_BACKEND_TRY(ecv_find_state(g));
  EC_BACKEND_TRY(ect_show_open(&s, &g->c, visitor, p->values.count));
  for (uint32_t i = 0; i < p->inputs.count; i++)
    ect_show_argument(&s, (uint32_t)ec_fb_vec_i32(p->inputs, i), i);
  for (uint32_t i = 0; i < p->outputs.count; i++)
    ect_show_argument(&s, (uint32_t)ec_fb_vec_i32(p->outputs, i), p->inputs.count + i);
  for (uint32_t i = 0; i < p->values.count; i++)
    if (ecv_value_type(p, i) == ECV_TENSOR) show_tensor(g, i, ecv_value_table(p, i), &s);
  for (uint32_t i = 0; i < p->chain.count; i++) {
    const ecv_node node = ecv_node_at(p, i);
    if (ecv_is_run(g, &node)) show_call(p, &node, &s);
  }
  ect_show_close(&s);
  return EC_BACKEND_OK;
}
