/* State: mutable buffers of the program. */
#include "special.h"

static uint32_t find_state(ecm_node *n, int64_t *id) {
  const ect_operand *v = NULL;
  EC_BACKEND_TRY(ecm_argument(n, "input", &v));
  if (!v || !v->is_state) return ecm_refuse(n, "the argument is not state");
  return ecm_use(n, v, id);
}

/* A copy, for later writes do not change what has been read. */
uint32_t ecm_call_read_state(ecm_node *n) {
  int64_t state = 0;
  EC_BACKEND_TRY(find_state(n, &state));
  return ecm_finish(n, "aten::clone.out", &state, 1);
}

uint32_t ecm_call_write_state(ecm_node *n) {
  int64_t state = 0, args[2];
  EC_BACKEND_TRY(find_state(n, &state));
  EC_BACKEND_TRY(ecm_input(n, "data", &args[0]));
  args[1] = ect_add_bool(&n->g->program, false);
  return ecm_call_op(n, "aten::_to_copy.out", args, 2, &state, 1, true);
}
