/* State shared by all parts of a method: lock, slots, description. */
#include "python/state.h"

#include "python/method.h"

#include "python/arrays.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/interrupt.h"
#include "python/method_meta_type.h"

/* ---- the lock ---------------------------------------------------------------------------- */

typedef struct waiting {
  ec_method *method;
  ecpy_interrupt interrupt;
  ec_status status;
  ec_error err;
} waiting;

static void wait_for_lock(void *arg) {
  waiting *w = arg;
  w->status = ec_method_lock(w->method, &w->interrupt.asked, &w->err);
}

static int lock_later(ecpy_method *self) {
  waiting w = {.method = self->method};
  ecpy_interrupt_init(&w.interrupt);
  ecpy_without_gil(wait_for_lock, &w);
  if (w.status == EC_OK) return 0;
  if (!ecpy_interrupt_raise(&w.interrupt)) ecpy_raise(self->state, &w.err);
  return -1;
}

int ecpy_method_lock(ecpy_method *self) {
  return ec_method_try_lock(self->method) ? 0 : lock_later(self);
}

void ecpy_method_unlock(ecpy_method *self) { ec_method_unlock(self->method); }

/* ---- slots ------------------------------------------------------------------------------- */

int ecpy_slot_read(ecpy_state *state, const ec_value *value, bool fixed, ecpy_slot *slot) {
  *slot = (ecpy_slot){.kind = (uint8_t)value->kind, .fixed = fixed};
  if (value->kind != EC_KIND_TENSOR) return 0;
  const ec_tensor *tensor = value->as.tensor;
  slot->dtype = tensor->dtype;
  slot->rank = tensor->rank;
  slot->row_major = ec_tensor_is_contiguous(tensor);
  slot->nbytes = ec_tensor_nbytes(tensor);
  ecpy_tensor_layout(tensor, slot->sizes, slot->strides);
  slot->descr = (PyArray_Descr *)Py_XNewRef(
      (PyObject *)ecpy_descr(state, ec_tensor_dtype(tensor)));
  return slot->descr ? 0 : -1;
}

int ecpy_method_read_slots(ecpy_method *self) {
  self->input_count = ec_method_input_count(self->method);
  self->output_count = ec_method_output_count(self->method);
  self->inputs = PyMem_Calloc(self->input_count + 1, sizeof *self->inputs);
  self->outputs = PyMem_Calloc(self->output_count + 1, sizeof *self->outputs);
  if (!self->inputs || !self->outputs) {
    ecpy_no_memory("the inputs and outputs of a method");
    return -1;
  }
  for (size_t i = 0; i < self->input_count; i++)
    if (ecpy_slot_read(self->state, ec_method_input(self->method, i), false, &self->inputs[i]))
      return -1;
  for (size_t i = 0; i < self->output_count; i++)
    if (ecpy_slot_read(self->state, ec_method_output(self->method, i),
                       ec_method_output_is_static(self->method, i), &self->outputs[i]))
      return -1;
  return 0;
}

static void free_slots(ecpy_slot *slots, size_t count) {
  for (size_t i = 0; slots && i < count; i++) Py_XDECREF((PyObject *)slots[i].descr);
  PyMem_Free(slots);
}

void ecpy_method_free_slots(ecpy_method *self) {
  free_slots(self->inputs, self->input_count);
  free_slots(self->outputs, self->output_count);
}

/* ---- the description --------------------------------------------------------------------- */

PyObject *ecpy_method_get_meta(ecpy_method *self) {
  size_t index;
  ec_error err;
  ec_error_clear(&err);
  if (self->meta) return self->meta;
  const char *name = ec_method_name(self->method);
  if (ec_program_find_method(self->ref->program, name, &index, &err) != EC_OK)
    return ecpy_raise(self->state, &err);
  PyObject *meta = ecpy_method_meta_new(self->state, self->ref, index);
  if (meta && self->meta) /* another thread was faster */
    Py_DECREF(meta);
  else
    self->meta = meta;
  return self->meta;
}
