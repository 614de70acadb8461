/* The tables that the verifier walks, in the notation of executorch_c/_flatbuffers.py, and the
 * verifier for files that only Python reads. */
#include "python/state.h"

#include "python/tables.h"

#include "format/bpte.h"
#include "format/kind.h"
#include "format/ptd.h"
#include "format/pte.h"
#include "format/schema.h"
#include "python/errors.h"

#include "format/etdump.def"

static PyObject *union_text(const ec_fb_field *field) {
  PyObject *text = PyUnicode_FromString("");
  for (size_t i = 1; text && i < field->table_count; i++) {
    PyObject *longer = PyUnicode_FromFormat("%U|%s", text, field->tables[i]->name);
    Py_SETREF(text, longer);
  }
  return text;
}

static PyObject *type_text(const ec_fb_field *field) {
  switch ((ec_fb_type)field->type) {
  case EC_FB_SCALAR: return PyUnicode_FromFormat("%d", field->size);
  case EC_FB_VECTOR: return PyUnicode_FromFormat("[%d]", field->size);
  case EC_FB_STRING: return PyUnicode_FromString("string");
  case EC_FB_STRINGS: return PyUnicode_FromString("[string]");
  case EC_FB_TABLE: return PyUnicode_FromString(field->tables[0]->name);
  case EC_FB_TABLES: return PyUnicode_FromFormat("[%s]", field->tables[0]->name);
  case EC_FB_UNION: return union_text(field);
  }
  Py_UNREACHABLE();
}

/* A table and those below it; schemas have no circles. */
static int add_table(PyObject *tables, const ec_fb_schema *schema) {
  PyObject *fields = PyDict_New();
  int failed = !fields || PyDict_SetItemString(tables, schema->name, fields);
  for (size_t i = 0; !failed && i < schema->field_count; i++) {
    const ec_fb_field *field = &schema->fields[i];
    PyObject *type = type_text(field);
    failed = !type || PyDict_SetItemString(fields, field->name, type);
    Py_XDECREF(type);
    for (size_t k = 0; !failed && k < field->table_count; k++)
      failed = field->tables[k] && add_table(tables, field->tables[k]);
  }
  Py_XDECREF(fields);
  return failed;
}

static const ec_fb_schema *etdump_schema(void) { return &schema_ETDump; }

PyObject *ecpy_file_tables(PyObject *name) {
  static const struct {
    const char *name;
    const ec_fb_schema *(*schema)(void);
  } rows[] = {{"pte", ec_pte_schema},
              {"ptd", ec_ptd_schema},
              {"bpte", ec_bpte_schema},
              {"etdump", etdump_schema}};
  const size_t count = sizeof rows / sizeof rows[0];
  size_t i = 0;
  if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "%R is not a str", name);
  while (i < count && PyUnicode_CompareWithASCIIString(name, rows[i].name) != 0) i++;
  if (i == count) return PyErr_Format(PyExc_KeyError, "%R", name);
  PyObject *tables = PyDict_New();
  if (tables && add_table(tables, rows[i].schema())) Py_CLEAR(tables);
  return tables;
}

/* Finds the FlatBuffer in an ETDump: runtimes write its size before it, flatc does not. */
static ec_status check_etdump(const uint8_t *data, size_t size, ec_bytes *out, ec_error *err) {
  static const char identifier[] = "ED00";
  enum { IDENTIFIER_AT = 4, PREFIX_BYTES = 4, HEAD_BYTES = 12 };
  *out = (ec_bytes){data, size};
  if (size < HEAD_BYTES || memcmp(data + IDENTIFIER_AT, identifier, 4) != 0) {
    if (size < HEAD_BYTES || memcmp(data + PREFIX_BYTES + IDENTIFIER_AT, identifier, 4) != 0)
      return ec_kind_fail(data, size, EC_INVALID_EXTERNAL_DATA, "an ETDump", err);
    *out = (ec_bytes){data + PREFIX_BYTES, ec_read_u32(data)};
    if (out->size > size - PREFIX_BYTES)
      return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                     "the ETDump states %zu bytes after its size, the file has %zu: it was cut off",
                     out->size, size - PREFIX_BYTES);
  }
  if (ec_fb_verify(out->data, out->size, etdump_schema(), "ETDump", err) == EC_OK) return EC_OK;
  return err->status = EC_INVALID_EXTERNAL_DATA;
}

PyObject *ecpy_check_etdump(ecpy_state *state, PyObject *data) {
  Py_buffer view;
  ec_bytes tables;
  ec_error err;
  ec_error_clear(&err);
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
  const ec_status status = check_etdump(view.buf, (size_t)view.len, &tables, &err);
  const Py_ssize_t start = status == EC_OK ? tables.data - (const uint8_t *)view.buf : 0;
  PyBuffer_Release(&view);
  if (status != EC_OK) return ecpy_raise(state, &err);
  return Py_BuildValue("(nn)", start, start + (Py_ssize_t)tables.size);
}
