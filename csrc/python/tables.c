/* The tables that the verifier walks, in the notation of executorch_c/_flatbuffers.py. */
#include "python/state.h"

#include "python/tables.h"

#include "format/bpte.h"
#include "format/ptd.h"
#include "format/pte.h"

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

PyObject *ecpy_file_tables(PyObject *name) {
  static const struct {
    const char *name;
    const ec_fb_schema *(*schema)(void);
  } rows[] = {{"pte", ec_pte_schema}, {"ptd", ec_ptd_schema}, {"bpte", ec_bpte_schema}};
  size_t i = 0;
  if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "%R is not a str", name);
  while (i < 3 && PyUnicode_CompareWithASCIIString(name, rows[i].name) != 0) i++;
  if (i == 3) return PyErr_Format(PyExc_KeyError, "%R", name);
  PyObject *tables = PyDict_New();
  if (tables && add_table(tables, rows[i].schema())) Py_CLEAR(tables);
  return tables;
}
