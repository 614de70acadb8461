/* Calls whose operands and results share memory under different names. */
#include "testing/fuzz_order.h"

#include "runtime/native.h"

static const ec_value *item_of(const ec_value *v, uint32_t i) {
  return v->kind == EC_KIND_TENSOR ? v : v->as.items[i];
}

static uint32_t count_items(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR ? 1 : v->kind >= EC_KIND_TENSOR_LIST ? v->count : 0;
}

static bool overlap(const ec_method *m, const ec_value *a, const ec_value *b) {
  if (a->kind != EC_KIND_TENSOR || b->kind != EC_KIND_TENSOR || a->as.tensor == b->as.tensor)
    return false;
  return ec_placements_overlap(ec_placement_of(m, a->as.tensor),
                               ec_placement_of(m, b->as.tensor));
}

static bool any_overlap(const ec_method *m, const ec_value *a, const ec_value *b) {
  for (uint32_t i = 0; i < count_items(a); i++)
    for (uint32_t k = 0; k < count_items(b); k++)
      if (overlap(m, item_of(a, i), item_of(b, k))) return true;
  return false;
}

bool ec_fuzz_depends_on_order(const ec_method *m) {
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    for (size_t w = 0; in->op && w < in->write_count; w++) {
      for (size_t r = 0; r < in->read_count; r++)
        if (any_overlap(m, in->writes[w], in->reads[r])) return true;
      for (size_t r = 0; r < w; r++)
        if (any_overlap(m, in->writes[w], in->writes[r])) return true;
    }
  }
  return false;
}
