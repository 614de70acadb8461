/* Events of the executor: one per instruction, with the shapes of arguments and the shapes or data
 * of results, and one for the whole call. */
#include "runtime/trace.h"

static const uint8_t event_kinds[] = {
    [EC_INSTR_KernelCall] = EC_EVENT_KERNEL,     [EC_INSTR_DelegateCall] = EC_EVENT_DELEGATE,
    [EC_INSTR_MoveCall] = EC_EVENT_MOVE,         [EC_INSTR_JumpFalseCall] = EC_EVENT_JUMP,
    [EC_INSTR_FreeCall] = EC_EVENT_FREE,
};

static const char *event_name(const ec_instr *in) {
  if (in->op) return in->op->name;
  return in->delegate ? in->delegate->backend->id
                      : ec_event_kind_name((ec_event_kind)event_kinds[in->kind]);
}

static uint32_t find_slot(const ec_method *m, const ec_value *v) {
  const bool own = v >= m->values && v < m->values + m->value_count;
  return own ? (uint32_t)(v - m->values) : EC_TRACE_NONE;
}

/* Adds a value to an event. Numbers are added only as results: the file has the arguments. */
static void add_value(const ec_method *m, ec_event *event, const char *name, bool is_output,
                      const ec_value *v) {
  ec_event_value head = {
      .name = name, .item = EC_TRACE_NONE, .slot = find_slot(m, v), .is_output = is_output};
  if (v->kind == EC_KIND_TENSOR) ec_trace_tensor(m->trace, event, &head, v->as.tensor);
  else if (is_output && ec_is_number(v))
    ec_trace_scalar(m->trace, event, name, ec_value_scalar(v));
  if (!ec_is_tensor_list(v)) return;
  for (uint32_t i = 0; i < v->count; i++) {
    const ec_value *item = v->as.items[i];
    if (item->kind != EC_KIND_TENSOR) continue;
    head.item = i;
    head.slot = find_slot(m, item);
    ec_trace_tensor(m->trace, event, &head, item->as.tensor);
  }
}

/* True if argument `i` is a result; of a delegate: see ec_instr.outputs_from. */
static bool is_output(const ec_instr *in, size_t i) {
  switch ((ec_instr_kind)in->kind) {
  case EC_INSTR_KernelCall: return i >= in->op->nargs || in->op->args[i].written;
  case EC_INSTR_DelegateCall: return i >= in->outputs_from;
  case EC_INSTR_MoveCall: return i == 1;
  default: return false;
  }
}

/* Adds the arguments or the results. A kernel's outs are repeated after its arguments, unless it
 * returns a number there. */
static void add_values(const ec_method *m, ec_event *event, const ec_instr *in, bool outputs) {
  const size_t count = in->op ? in->op->nargs + in->op->returns_scalar : in->count;
  for (size_t i = 0; i < count; i++) {
    const bool named = in->op && i < in->op->nargs;
    if (is_output(in, i) == outputs)
      add_value(m, event, named ? in->op->args[i].name : "", outputs, in->args[i]);
  }
}

/* Reports the tensors that an instruction reads or writes as those of a node. */
static void add_node_tensors(const ec_method *m, const ec_instr *in, uint32_t handle,
                             bool outputs) {
  for (size_t i = 0; i < in->count && in->op && i < in->op->nargs; i++) {
    const ec_value *v = in->args[i];
    if (is_output(in, i) != outputs) continue;
    if (v->kind == EC_KIND_TENSOR) ec_trace_node_value(m->trace, handle, outputs, v->as.tensor);
    for (uint32_t k = 0; ec_is_tensor_list(v) && k < v->count; k++)
      if (v->as.items[k]->kind == EC_KIND_TENSOR)
        ec_trace_node_value(m->trace, handle, outputs, v->as.items[k]->as.tensor);
  }
}

/* Runs an instruction of a program inside a payload whose backend names the nodes. */
static ec_status run_as_node(ec_method *m, const ec_step *step, ec_handler handler, size_t *next,
                             ec_error *err) {
  const ec_instr *in = step->run;
  const ec_backend_node *node = in->number < m->node_count ? &m->nodes[in->number] : NULL;
  const unsigned keeps = ec_trace_keeps(m->trace);
  const uint64_t start = ec_trace_now();
  const ec_trace_scope outer = ec_trace_enter(m->trace, NULL); /* no nodes inside this one */
  const ec_status status = handler(m, step, next, err);
  ec_trace_leave(m->trace, outer);
  if (status != EC_OK) return status;
  if (!node || !node->name) return EC_OK;
  ec_trace_node(m->trace, node->debug_handle, node->name, ec_trace_now() - start);
  if (keeps & EC_TRACE_RANGES) add_node_tensors(m, in, node->debug_handle, false);
  if (keeps) add_node_tensors(m, in, node->debug_handle, true);
  return EC_OK;
}

ec_status ec_traced_step(ec_method *m, size_t chain, const ec_step *step, ec_handler handler,
                         size_t *next, ec_error *err) {
  const ec_instr *in = step->run;
  ec_trace *trace = m->trace;
  if (m->nodes) return run_as_node(m, step, handler, next, err);
  const ec_event head = {
      .kind = event_kinds[in->kind],
      .chain = (uint32_t)chain,
      .instruction = in->number,
      .delegate = in->delegate ? (uint32_t)(in->delegate - m->delegates) : EC_TRACE_NONE,
      .debug_handle = EC_TRACE_NONE,
      .name = event_name(in),
  };
  ec_event *event = ec_trace_begin(trace, &head);
  add_values(m, event, in, false);
  ec_trace_start(event);
  const ec_trace_scope outer = ec_trace_enter(trace, in->delegate ? event : NULL);
  ec_status status = handler(m, step, next, err);
  ec_trace_leave(trace, outer);
  ec_trace_end(event, status != EC_OK);
  if (status == EC_OK) add_values(m, event, in, true);
  return status;
}

/* Adds inputs and outputs of the call. Inputs may be overwritten by now, so the caller determines
 * their ranges. */
static void add_io(const ec_method *m, ec_event *event) {
  for (size_t i = 0; i < m->input_count; i++) {
    const ec_value *v = m->inputs[i].value;
    ec_tensor shape = {0};
    const ec_event_value head = {
        .name = "", .item = EC_TRACE_NONE, .slot = find_slot(m, v), .is_output = false};
    if (v->kind != EC_KIND_TENSOR) continue;
    shape = *v->as.tensor;
    shape.data = NULL;
    ec_trace_tensor(m->trace, event, &head, &shape);
  }
  for (size_t i = 0; i < m->output_count; i++) add_value(m, event, "", true, m->outputs[i].value);
}

ec_status ec_traced_call(ec_method *m, ec_status (*run)(ec_method *m, ec_error *err),
                         ec_error *err) {
  if (m->nodes) return run(m, err);
  const ec_event head = {.kind = EC_EVENT_EXECUTE, .chain = EC_TRACE_NONE,
                         .instruction = EC_TRACE_NONE, .delegate = EC_TRACE_NONE,
                         .debug_handle = EC_TRACE_NONE, .name = m->name};
  ec_event *event = ec_trace_begin(m->trace, &head);
  ec_trace_start(event);
  ec_status status = run(m, err);
  ec_trace_end(event, status != EC_OK);
  if (status == EC_OK) add_io(m, event);
  return status;
}
