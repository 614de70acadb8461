/* The extension module executorch_c._backend_openvino, which exports the backend as a capsule. It
 * looks for the library of the installed package openvino without importing it. */
#include <Python.h>

#include "executorch_c/module.h"
#include "library.h"
#include "openvino_backend.h"

/* Sets the path of the library; a broken installation is the same as none. */
static void find_library(void) {
  PyObject *module = PyImport_ImportModule("executorch_c._openvino");
  PyObject *path = module ? PyObject_CallMethod(module, "library", NULL) : NULL;
  const char *text = path && PyUnicode_Check(path) ? PyUnicode_AsUTF8AndSize(path, NULL) : NULL;
  if (text && !eco_library_path()[0]) eco_library_set_path(text);
  Py_XDECREF(path);
  Py_XDECREF(module);
  PyErr_Clear();
}

static PyObject *found_backends(const ec_backend *const *all, size_t count) {
  find_library();
  return ec_backend_capsules(all, count);
}

static const ec_backend *const all[] = {&eco_backend};

EC_MODULE(_backend_openvino, "Backend OpenvinoBackend.", backends,
          "Return the backend of this module as a capsule for executorch_c.register_backend.",
          found_backends(all, sizeof all / sizeof *all))
