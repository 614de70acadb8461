/* The operators delegated at load, and the draft of a whole run. */
#include "delegate_at_load/run.h"

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "delegate_at_load/delegation.h"
#include "delegate_at_load/forms.h"
#include "delegate_at_load/integers.h"
#include "delegate_at_load/weights.h"

enum { FLOAT32 = 6, LIST_OF_TENSORS = 9 };

static const ecx_operator rows[] = {
#define ECX_DELEGATE(op, fn, kind) {op, ecx_delegate_##fn, ECX_KIND_##kind, false},
#define ECX_DELEGATE_CODES(op, fn) {op, ecx_delegate_##fn, ECX_KIND_None, true},
#include "delegate_at_load/operators.def"
#undef ECX_DELEGATE
#undef ECX_DELEGATE_CODES
};

static int compare_op(const void *op, const void *row) {
  return strcmp(op, ((const ecx_operator *)row)->op);
}

static const ecx_operator *find_row(const char *op) {
  return bsearch(op, rows, sizeof rows / sizeof rows[0], sizeof rows[0], compare_op);
}

/* ---- one call -------------------------------------------------------------------------------- */

static bool is_product(const ecx_operator *row) {
  return row->kind == ECX_KIND_FullyConnected || row->kind == ECX_KIND_BatchMatrixMultiply;
}

static const char *check_tensor(const ecx_operator *row, const ec_backend_value *v) {
  if (v->is_unread) return NULL;
  if (v->tensor.rank > XNN_MAX_TENSOR_DIMS) return "its number of dimensions";
  if (ecx_memory_form(v) == ECX_FORMS && !(is_product(row) && ecx_is_turned(v)))
    return "its dim_order";
  if (row->checks_dtypes && v->tensor.nbytes) return NULL;
  if (v->tensor.dtype != FLOAT32) return "its dtype";
  if (v->tensor.rank == 0 && !ecx_is_constant(v)) return "a tensor without dimensions";
  if (v->tensor.nbytes == 0) return "an empty tensor";
  for (size_t d = 0; d < v->tensor.rank; d++)
    if (v->tensor.sizes[d] > INT32_MAX) return "its size";
  return NULL;
}

const char *ecx_can_delegate(const ec_backend_kernel_call *call) {
  const ecx_operator *row = find_row(call->op);
  const char *reason = row ? NULL : "an operator without a rule";
  size_t computed = 0;
  for (size_t i = 0; !reason && i < call->count; i++) {
    const ec_backend_arg *arg = &call->args[i];
    if (arg->kind == EC_BACKEND_TENSOR) {
      reason = check_tensor(row, arg->slot);
      computed += !ecx_is_constant(arg->slot);
    }
    for (size_t k = 0; arg->kind == LIST_OF_TENSORS && !reason && k < arg->as.list.count; k++) {
      reason = check_tensor(row, arg->as.list.items[k].slot);
      computed += !ecx_is_constant(arg->as.list.items[k].slot);
    }
  }
  if (!reason && computed < 2) reason = "constants only"; /* one is the out */
  return reason ? reason : row->fn(NULL, row, call);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void count_place(ecx_delegation *b, const ec_backend_value *v) {
  for (; v; v = v->same) {
    b->entries[v->number].places++;
    b->entries[v->number].is_given = v->same != NULL;
  }
}

static void count_places(ecx_delegation *b) {
  for (size_t i = 0; i < b->run->call_count; i++) {
    const ec_backend_kernel_call *call = &b->run->calls[i];
    for (size_t a = 0; a < call->count; a++) {
      const ec_backend_arg *arg = &call->args[a];
      if (arg->kind == EC_BACKEND_TENSOR) count_place(b, arg->slot);
      for (size_t k = 0; arg->kind == LIST_OF_TENSORS && k < arg->as.list.count; k++)
        count_place(b, arg->as.list.items[k].slot);
    }
  }
  for (size_t i = 0; i < b->run->output_count; i++) count_place(b, b->run->outputs[i]);
}

static void add_inputs(ecx_delegation *b) {
  for (size_t i = 0; i < b->run->input_count; i++) {
    const ec_backend_value *v = b->run->inputs[i];
    b->entries[v->number].is_given = true;
    b->entries[v->number].position = (uint32_t)i;
    if (v->tensor.dtype != FLOAT32) continue; /* until its coding is known */
    const ecx_form form = ecx_memory_form(v);
    const ecx_shape shape = ecx_shape_of(v, form);
    ecx_bind(b, v, form, ecx_draft_input(b->draft, &shape, (uint32_t)i));
  }
}

/* Makes a value an output. One that is another argument already is copied. */
static void add_output(ecx_delegation *b, const ec_backend_value *v, size_t position) {
  ecx_draft *d = b->draft;
  const ecx_form form = ecx_memory_form(v);
  uint32_t id = ecx_read(b, v, form);
  if (d->failed) return;
  if (d->values[id].producer == ECX_NONE || d->values[id].is_output) {
    const uint32_t from = id;
    const ecx_shape shape = ecx_shape_of(v, form);
    id = ecx_result_like(b, from, &shape);
    ecx_draft_add(d, ECX_KIND_Copy, &from, 1, id);
  }
  if (d->failed) return;
  d->values[id].is_output = true;
  d->values[id].external = (uint32_t)position;
  if (position >= d->extern_count) d->extern_count = (uint32_t)position + 1;
}

/* Makes watched values outputs after the arguments. */
static void add_watched(ecx_draft *d) {
  const uint32_t first = d->extern_count;
  for (size_t i = 0; i < d->value_count; i++) {
    ecx_draft_value *v = &d->values[i];
    if (!v->is_watched || v->is_output || v->producer == ECX_NONE) continue;
    v->is_output = true;
    v->external = d->extern_count++;
  }
  if (d->extern_count > first) d->watched_from = first;
}

/* Refuses the call that writes a value, and those of its dynamic quantisation before. */
static void refuse_writer(ecx_delegation *b, const ec_backend_value *v) {
  const uint32_t writer = b->entries[v->number].writer;
  if (writer == ECX_NONE || b->run->refused[writer]) return;
  b->run->refused[writer] = true;
  const ec_backend_kernel_call *call = &b->run->calls[writer];
  for (size_t a = 0; a < call->count; a++)
    if (call->args[a].kind == EC_BACKEND_TENSOR) refuse_writer(b, call->args[a].slot);
}

/* Fails if a value that is quantised as it comes is read by anything but a layer of integers. */
static uint32_t check_readable(const ecx_call *c, ecx_delegation *b) {
  if (!b->unreadable) return EC_BACKEND_OK;
  refuse_writer(b, b->unreadable);
  return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED,
                  "dynamic quantisation that is not read by linear layers of integers alone");
}

/* Refuses dynamic quantisation unless it is asked for: the operators choose a scale for a tensor,
 * XNNPACK chooses one for each row, of other steps. */
static uint32_t check_scales(const ecx_call *c, const ecx_delegation *b) {
  bool any = false;
  for (size_t i = 0; !b->run->always && i < b->run->call_count; i++) {
    const ecx_operator *row = find_row(b->run->calls[i].op);
    b->run->refused[i] = row && ecx_is_dynamic_quantization(row);
    any |= b->run->refused[i];
  }
  if (!any) return EC_BACKEND_OK;
  return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED,
                  "a scale for all rows, where XNNPACK has one for each");
}

static uint32_t add_calls(const ecx_call *c, ecx_delegation *b) {
  ECX_TRY(check_scales(c, b));
  for (size_t i = 0; i < b->run->call_count; i++) {
    const ec_backend_kernel_call *call = &b->run->calls[i];
    const ecx_operator *row = find_row(call->op);
    b->at = i;
    const char *reason = row ? row->fn(b, row, call) : "the operator";
    ECX_TRY(check_readable(c, b));
    if (b->draft->failed) break; /* no memory: its lack must not change what is delegated */
    b->run->refused[i] = reason != NULL;
    if (reason) return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED, "%s", reason);
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_delegate_run(const ecx_call *c, const ec_backend_run *run, ecx_draft *draft) {
  ecx_delegation b = {.draft = draft, .run = run};
  draft->c = c;
  if (run->input_count + run->output_count > ECX_MAX_EXTERNS)
    return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED, "%zu arguments",
                    run->input_count + run->output_count);
  b.entries = c->host->scratch(c->call, run->value_count * sizeof *b.entries + 1);
  if (!b.entries) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a draft");
  for (size_t i = 0; i < run->value_count; i++)
    b.entries[i] = (ecx_entry){.ids = {ECX_NONE, ECX_NONE},
                               .position = ECX_NONE,
                               .writer = ECX_NONE,
                               .floats = ECX_NONE};
  count_places(&b);
  add_inputs(&b);
  ECX_TRY(add_calls(c, &b));
  for (size_t i = 0; i < run->output_count; i++)
    add_output(&b, run->outputs[i], run->input_count + i);
  ECX_TRY(check_readable(c, &b));
  for (size_t i = 0; i < draft->node_count; i++) ecx_settle_weights(draft, &draft->nodes[i]);
  add_watched(draft);
  if (draft->extern_count > ECX_MAX_EXTERNS)
    return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED, "too many watched values");
  return draft->failed ? ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a draft")
                       : EC_BACKEND_OK;
}
