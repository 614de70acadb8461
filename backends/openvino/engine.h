/* A delegate: the engine's core, compiled model and request. */
#ifndef ECO_ENGINE_H
#define ECO_ENGINE_H

#include "blob.h"
#include "library.h"
#include "options.h"

enum { ECO_DEVICE = 64 };

typedef struct eco_delegate {
  const eco_library *lib;
  eco_core *core;
  eco_model *model;
  eco_request *request;
  size_t inputs, outputs; /* of the model */
  char device[ECO_DEVICE];
  eco_options options;
  const void *payload;
  bool is_known;            /* the payload is of the format of blob.h, on a device of that format */
  struct eco_shown *shown;  /* NULL: no call has shown values */
  int64_t blob_bytes, calls; /* for reports */
} eco_delegate;

/* Compiles a payload, whose bytes are not needed afterwards, and makes a request. On failure both
 * must still be freed. */
uint32_t eco_engine_import(const ec_backend_call *c, const eco_delegate *d, const void *payload,
                           size_t size, eco_model **model, eco_request **request);

/* Frees a model and its request, each of which may be NULL. A forked process keeps them. */
void eco_engine_free(const eco_library *lib, eco_model *model, eco_request *request);

/* Imports a payload into a zeroed delegate. On failure it must still be closed. */
uint32_t eco_engine_open(const ec_backend_call *c, const ec_backend_init *what, eco_delegate *d);
void eco_engine_close(eco_delegate *d);

#endif
