/* OpenVINO's C library (libopenvino_c of the PyPI wheel), opened with dlopen at first use. */
#ifndef ECO_LIBRARY_H
#define ECO_LIBRARY_H

#include "executorch_c/backend.h"

typedef struct eco_core eco_core;
typedef struct eco_model eco_model;
typedef struct eco_request eco_request;
typedef struct eco_tensor eco_tensor;

/* ov_version_t, ov_shape_t, ov_profiling_info_t, ov_profiling_info_list_t of its headers. */
typedef struct eco_version {
  const char *build, *description;
} eco_version;

typedef struct eco_shape {
  int64_t rank;
  int64_t *dims;
} eco_shape;

enum { ECO_EXECUTED = 2 };

typedef struct eco_node {
  int status; /* ECO_EXECUTED: the node has run */
  int64_t real_time, cpu_time; /* microseconds */
  const char *name, *exec_type, *type;
} eco_node;

typedef struct eco_profile {
  eco_node *nodes;
  size_t count;
} eco_profile;

typedef struct eco_library {
#define EC_OV(result, name, parameters) result(*name) parameters;
#include "symbols.def"
#undef EC_OV
  char version[64]; /* "2025.4.1-20426-82bbf0292c5-releases/2025/4" */
  int year;         /* of the version */
} eco_library;

/* Sets the path of the library; not after it is open. Returns false if the path is too long, or
 * another library is open. */
bool eco_library_set_path(const char *path);
/* Returns the path; empty: none is known. Valid until it is set again. */
const char *eco_library_path(void);

/* Opens the library once for the process. Errors: NotFound (no path, or dlopen fails: names the
 * extra), Incompatible (a function is missing, an old release), InvalidState (the process was
 * forked after or during it: the threads of the engine are lost). */
uint32_t eco_library_open(const ec_backend_call *c, const eco_library **out);

/* False in a forked process: its engine's objects cannot be freed either, for that waits for the
 * threads. */
bool eco_library_is_usable(void);

/* Fails with the engine's own message after `what`. */
uint32_t eco_library_fail(const ec_backend_call *c, const eco_library *lib, uint32_t status,
                          const char *what);

#endif
