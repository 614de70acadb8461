/* Records of calls: the arguments that allow one, and the check that it is complete. */
#include "runtime/passes/record.h"

#include "backend/registry.h"

enum { RECORD_BYTES = 4 << 20 /* of the steps of a method */ };

/* True if the tensor has one shape and one address in all calls. Products that read a turned weight
 * are long. */
static bool is_tensor_fixed(const ec_method *m, const ec_tensor *t) {
  if (t < m->tensors || t >= m->tensors + m->tensor_count) return false;
  return t->dynamism == EC_STATIC && t->data && !ec_placement_of(m, t)->rebindable;
}

static bool is_arg_fixed(const ec_uses *uses, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR) return is_tensor_fixed(uses->m, v->as.tensor);
  for (uint32_t i = 0; ec_is_tensor_list(v) && i < v->count; i++)
    if (v->as.items[i]->kind != EC_KIND_TENSOR ||
        !is_tensor_fixed(uses->m, v->as.items[i]->as.tensor))
      return false;
  return ec_is_fixed(uses, v);
}

static bool are_args_fixed(const ec_uses *uses, const ec_instr *in) {
  for (size_t i = 0; i < in->count; i++)
    if (!is_arg_fixed(uses, in->args[i])) return false;
  return true;
}

static bool is_recordable(const ec_uses *uses, const ec_instr *in) {
  if (!in->op || in->op->work == EC_OP_NEITHER || in->op->makes_view || in->op->returns_scalar ||
      in->op->custom)
    return false;
  return are_args_fixed(uses, in);
}

/* Gives a call, which may be one for several, an empty record. */
static ec_status record_call(ec_method *m, ec_step *call, ec_error *err) {
  ec_step recorded = *call;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *call->record, "a record", &call->record, err));
  call->record->memory = &m->recorded;
  recorded.kind = EC_STEP_Recorded;
  recorded.pass = EC_PASS_record;
  recorded.record = call->record;
  return ec_plan_add(m, recorded, true, err);
}

static bool is_repeatable(const ec_uses *uses, const ec_instr *in) {
  return EC_BACKEND_MEMBER(in->delegate->backend, repeat) && are_args_fixed(uses, in);
}

static ec_status repeat_call(ec_method *m, const ec_step *call, ec_error *err) {
  ec_step repeated = *call;
  repeated.kind = EC_STEP_Repeated;
  repeated.pass = EC_PASS_record;
  return ec_plan_add(m, repeated, true, err);
}

ec_status ec_record_calls(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  m->recorded = (ec_record_memory){&m->records, RECORD_BYTES, NULL};
  for (size_t i = 0; i < m->instr_count; i++) {
    ec_step *call = m->plan.steps[i];
    const size_t count = call->count;
    if (call->kind == EC_STEP_KernelCall && is_recordable(p->uses, call->run))
      EC_TRY(record_call(m, call, err));
    else if (call->kind == EC_STEP_DelegateCall && is_repeatable(p->uses, call->run))
      EC_TRY(repeat_call(m, call, err));
    else continue;
    m->plan.changed[EC_PASS_record] += count;
  }
  return EC_OK;
}

static uint64_t count_elements(const ec_value *v) {
  uint64_t count = 0;
  if (v->kind == EC_KIND_TENSOR) return (uint64_t)v->as.tensor->numel;
  for (uint32_t i = 0; i < v->count; i++)
    if (v->as.items[i]->kind == EC_KIND_TENSOR) count += (uint64_t)v->as.items[i]->as.tensor->numel;
  return count;
}

void ec_finish_record(const ec_step *step, ec_status status, uint64_t elements) {
  const ec_instr *in = step->run;
  ec_record *record = step->record;
  uint64_t outputs = 0;
  if (record->state != EC_RECORD_EMPTY) return;
  for (size_t i = 0; i < in->write_count; i++) outputs += count_elements(in->writes[i]);
  if (status != EC_OK || !record->first || record->written < outputs) {
    ec_record_refuse(record);
    return;
  }
  record->elements = elements;
  record->state = EC_RECORD_READY;
}
