/* A complete method as plain dictionaries, for the tools in executorch_c/inspect: values,
 * instructions, delegates, and the contents of delegates. */
#include "python/state.h"

#include "python/inspect.h"

#include "python/errors.h"
#include "python/objects.h"
#include "python/program_ref.h"
#include "python/values.h"
#include "runtime/inspect.h"

static const char *const location_names[EC_LOCATIONS] = {
    [EC_LOCATION_NONE] = "none",         [EC_LOCATION_PLANNED] = "planned",
    [EC_LOCATION_STATE] = "state",       [EC_LOCATION_CONSTANT] = "constant",
    [EC_LOCATION_EXTERNAL] = "external",
};
static const char *const dynamism_names[] = {
    [EC_STATIC] = "static", [EC_DYNAMIC_BOUND] = "bound", [EC_DYNAMIC_UNBOUND] = "unbound"};
static const char *const role_names[EC_ROLES] = {
    [EC_ROLE_IN] = "in", [EC_ROLE_OUT] = "out", [EC_ROLE_INOUT] = "inout",
    [EC_ROLE_RETURN] = "return"};
static const char *const kind_names[] = {
    [EC_INSTR_KernelCall] = "kernel", [EC_INSTR_DelegateCall] = "delegate",
    [EC_INSTR_MoveCall] = "move",     [EC_INSTR_JumpFalseCall] = "jump",
    [EC_INSTR_FreeCall] = "free"};

/* ---- values ------------------------------------------------------------------------------ */

static PyObject *tensor_dict(const ec_value_row *row) {
  const ec_tensor_info *t = &row->info.tensor;
  return Py_BuildValue(
      "{s:s, s:N, s:s, s:N, s:N, s:s, s:n, s:s, s:N, s:K, s:I, s:N}", "kind", "Tensor", "name",
      ecpy_text(t->name), "dtype", ec_dtype_name(t->dtype), "shape",
      ecpy_int_tuple(t->sizes, t->rank), "dim_order", ecpy_dim_order(t->dim_order, t->rank),
      "dynamism", dynamism_names[t->dynamism], "nbytes", (Py_ssize_t)t->nbytes, "where",
      location_names[row->location], "arena",
      ecpy_index_or_none(row->arena ? (int64_t)row->arena : -1), "offset",
      (unsigned long long)row->offset, "buffer", (unsigned)t->buffer, "at",
      ecpy_index_or_none(row->file_offset));
}

static PyObject *list_item(const ec_value_row *row, uint32_t i) {
  if (row->info.kind == EC_KIND_DOUBLE_LIST)
    return PyFloat_FromDouble(ec_fb_vec_f64(row->items, i));
  if (row->info.kind == EC_KIND_BOOL_LIST) return PyBool_FromLong(row->items.items[i] != 0);
  return ecpy_index_or_none(ec_row_item(row, i));
}

static PyObject *scalar_or_list(const ec_value_row *row) {
  const ec_kind kind = row->info.kind;
  if (kind <= EC_KIND_BOOL) return ecpy_described_object(&row->info);
  PyObject *list = PyList_New(0);
  for (uint32_t i = 0; list && i < row->items.count; i++) ecpy_append(&list, list_item(row, i));
  return list;
}

static PyObject *value_dict(const ec_value_row *row) {
  if (row->info.kind == EC_KIND_TENSOR) return tensor_dict(row);
  return Py_BuildValue("{s:s, s:N}", "kind", ec_kind_name(row->info.kind), "value",
                       scalar_or_list(row));
}

static PyObject *value_list(const ec_inspection *s) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < s->value_count; i++)
    ecpy_append(&list, value_dict(&s->values[i]));
  return list;
}

static PyObject *id_list(const uint32_t *ids, size_t count) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) ecpy_append(&list, PyLong_FromUnsignedLong(ids[i]));
  return list;
}

/* ---- instructions ------------------------------------------------------------------------ */

static PyObject *arg_list(const ec_inspect_instr *instr) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < instr->row.arg_count; i++) {
    const ec_inspect_arg *arg = &instr->args[i];
    ecpy_append(&list, Py_BuildValue("INs", (unsigned)arg->value, ecpy_text(arg->name),
                                     role_names[arg->role]));
  }
  return list;
}

static PyObject *frame_list(const ec_inspect_instr *instr) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < instr->frame_count; i++) {
    const ec_inspect_frame *f = &instr->frames[i];
    ecpy_append(&list, Py_BuildValue("NiNN", ecpy_text(f->file), (int)f->line,
                                     ecpy_text(f->function), ecpy_text(f->context)));
  }
  return list;
}

static PyObject *instr_dict(const ec_inspect_instr *instr) {
  return Py_BuildValue("{s:s, s:N, s:N, s:N, s:N, s:N, s:N}", "kind", kind_names[instr->row.kind],
                       "name", ecpy_text(instr->name), "available",
                       PyBool_FromLong(instr->row.op < 0 || instr->available),
                       "delegate", ecpy_index_or_none(instr->row.delegate), "destination",
                       ecpy_index_or_none(instr->row.destination), "args", arg_list(instr),
                       "stack", frame_list(instr));
}

static PyObject *chain_list(const ec_inspection *s) {
  PyObject *chains = PyList_New(0);
  for (size_t c = 0; chains && c < s->chain_count; c++) {
    PyObject *instrs = PyList_New(0);
    for (size_t i = 0; instrs && i < s->chains[c].count; i++)
      ecpy_append(&instrs, instr_dict(&s->chains[c].instrs[i]));
    ecpy_append(&chains, instrs);
  }
  return chains;
}

/* ---- delegates --------------------------------------------------------------------------- */

static PyObject *spec_list(const ec_delegate_row *row) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < row->spec_count; i++)
    ecpy_append(&list, Py_BuildValue("Ny#", ecpy_text(row->specs[i].key), row->specs[i].value,
                                     (Py_ssize_t)row->specs[i].size));
  return list;
}

static PyObject *delegate_list(const ec_inspection *s) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < s->delegate_count; i++) {
    const ec_delegate_row *row = &s->delegates[i];
    ecpy_append(&list, Py_BuildValue("{s:N, s:s, s:I, s:N, s:n, s:N}", "id", ecpy_text(row->id),
                                     "where", row->in_segment ? "segment" : "inline", "index",
                                     (unsigned)row->index, "at",
                                     ecpy_index_or_none(row->file_offset), "size",
                                     (Py_ssize_t)row->payload.size, "specs", spec_list(row)));
  }
  return list;
}

/* ---- contents of a delegate -------------------------------------------------------------- */

typedef struct inside {
  PyObject *values, *nodes; /* lists; NULL after a failure */
} inside;

static void add_value(void *user, const ec_backend_inner_value *v) {
  inside *in = user;
  if (!in->values) return;
  ecpy_append(
      &in->values,
      Py_BuildValue("{s:I, s:N, s:N, s:N, s:N, s:N, s:n}", "id", (unsigned)v->id, "argument",
                    ecpy_index_or_none(v->argument == UINT32_MAX ? -1 : (int64_t)v->argument),
                    "constant", PyBool_FromLong(v->constant), "dtype", ecpy_text(v->dtype), "note",
                    ecpy_text(v->note), "shape",
                    v->sizes ? ecpy_int_tuple(v->sizes, v->rank) : Py_NewRef(Py_None), "nbytes",
                    (Py_ssize_t)v->nbytes));
}

static void add_node(void *user, const ec_backend_inner_node *n) {
  inside *in = user;
  const bool handled = n->debug_handle != UINT32_MAX;
  if (!in->nodes) return;
  ecpy_append(&in->nodes, Py_BuildValue("{s:N, s:N, s:N, s:N, s:N}", "debug_handle",
                                        ecpy_index_or_none(handled ? (int64_t)n->debug_handle : -1),
                                        "name", ecpy_text(n->name), "note", ecpy_text(n->note),
                                        "inputs", id_list(n->inputs, n->input_count), "outputs",
                                        id_list(n->outputs, n->output_count)));
}

static PyObject *look_inside(ecpy_state *state, const ec_program *program, const ec_inspection *s,
                             size_t delegate) {
  ec_error err;
  ec_error_clear(&err);
  bool supported = false;
  inside in = {PyList_New(0), PyList_New(0)};
  const ec_backend_visitor visitor = {sizeof visitor, &in, add_value, add_node, NULL};
  PyObject *dict = NULL;
  ec_status status = ec_inspect_delegate(program, s, delegate, &visitor, &supported, &err);
  if (!PyErr_Occurred()) {
    if (status != EC_OK)
      ecpy_raise(state, &err);
    else
      dict = supported ? Py_BuildValue("{s:O, s:O}", "values", in.values, "nodes", in.nodes)
                       : Py_NewRef(Py_None);
  }
  Py_XDECREF(in.values);
  Py_XDECREF(in.nodes);
  return dict;
}

/* ---- functions --------------------------------------------------------------------------- */

/* Reads a method. If a backend or operator is missing, loads installed plug-ins first. */
static int open_structure(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                          ec_inspection *out) {
  size_t index;
  ec_error err;
  ec_error_clear(&err);
  ec_method_info info = {0};
  ec_status status = ec_program_find_method(ref->program, name, &index, &err);
  if (status == EC_OK && ecpy_describe(state, ref, index, &info)) return -1;
  ec_method_info_deinit(&info);
  if (status == EC_OK) status = ec_inspection_init(ref->program, index, out, &err);
  if (status == EC_OK) return 0;
  ecpy_raise(state, &err);
  return -1;
}

static int open_delegate(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                         Py_ssize_t delegate, ec_inspection *out) {
  if (open_structure(state, ref, name, out)) return -1;
  if (delegate >= 0 && (size_t)delegate < out->delegate_count) return 0;
  PyErr_Format(PyExc_IndexError, "delegate %zd of %zu of method '%s'", delegate,
               out->delegate_count, name);
  ec_inspection_deinit(out);
  return -1;
}

PyObject *ecpy_inspect_method(ecpy_state *state, ecpy_program_ref *ref, const char *name) {
  ec_inspection s = {0};
  if (open_structure(state, ref, name, &s)) return NULL;
  PyObject *dict = Py_BuildValue(
      "{s:N, s:N, s:N, s:N, s:N, s:N, s:N}", "name", ecpy_text(s.name), "inputs",
      id_list(s.inputs, s.input_count), "outputs", id_list(s.outputs, s.output_count), "arenas",
      ecpy_int_list(s.arenas, s.arena_count), "values", value_list(&s), "chains", chain_list(&s),
      "delegates", delegate_list(&s));
  ec_inspection_deinit(&s);
  return dict;
}

PyObject *ecpy_inspect_delegate(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                                Py_ssize_t delegate) {
  ec_inspection s = {0};
  if (open_delegate(state, ref, name, delegate, &s)) return NULL;
  PyObject *dict = look_inside(state, ref->program, &s, (size_t)delegate);
  ec_inspection_deinit(&s);
  return dict;
}

PyObject *ecpy_inspect_payload(ecpy_state *state, ecpy_program_ref *ref, const char *name,
                               Py_ssize_t delegate) {
  ec_inspection s = {0};
  if (open_delegate(state, ref, name, delegate, &s)) return NULL;
  const ec_bytes payload = s.delegates[delegate].payload;
  PyObject *bytes =
      PyBytes_FromStringAndSize((const char *)payload.data, (Py_ssize_t)payload.size);
  ec_inspection_deinit(&s);
  return bytes;
}
