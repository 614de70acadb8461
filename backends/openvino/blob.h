/* The payload: the stream that CompiledModel.export_model of OpenVINO's CPU plugin writes.
 *
 * Releases up to 2025: six u64 (offset and size of a description, of constants, of the model), the
 * description (XML), the constants, and the model (IR version 11 as XML, each byte xor-ed with one
 * of twelve). The stream does not state the release that wrote it. */
#ifndef ECO_BLOB_H
#define ECO_BLOB_H

#include "executorch_c/backend.h"

enum { ECO_KEY = 12 }; /* bytes of the key */

typedef struct eco_blob {
  bool is_known; /* the format above; otherwise the other members are zero */
  const uint8_t *constants;
  size_t constants_size;
  const uint8_t *model;
  size_t model_size;
  uint8_t key[ECO_KEY];
} eco_blob;

/* Checks the header and the start of the model. A payload of another format is not an error.
 * Errors: InvalidProgram (empty, sizes that do not fit the payload, a model that is not XML). */
uint32_t eco_blob_open(const ec_backend_call *c, const ec_backend_init *what, eco_blob *out);

/* Returns byte i of the model's XML. */
static inline char eco_blob_text(const eco_blob *blob, size_t i) {
  return (char)(blob->model[i] ^ blob->key[i % ECO_KEY]);
}

/* Returns the bytes of a known payload before its model. */
size_t eco_blob_prefix(const eco_blob *blob, const void *payload);

/* Writes a known payload with another model of `size` bytes, to prefix + size bytes. */
void eco_blob_replace(const eco_blob *blob, const void *payload, const char *text, size_t size,
                      uint8_t *out);

#endif
