/* Tensors of a safetensors file, by key. */
#ifndef ECT_SAFETENSORS_H
#define ECT_SAFETENSORS_H

#include "json.h"

typedef struct ect_stored {
  ect_text key;
  const char *code; /* the dtype in the file; NULL: unknown */
  int32_t dtype;    /* -1: the runtime has none */
  uint32_t rank;
  int64_t sizes[16];
  const uint8_t *data;
  size_t size;
  void *copy; /* the caller's */
} ect_stored;

typedef struct ect_tensors {
  ect_stored *items;
  size_t count, room;
  ect_names keys; /* numbers of items */
  uint8_t *texts; /* the header, with decoded keys */
} ect_tensors;

/* Reads the header. Fails if it is not inside the file, or if tensors overlap, have a key twice, or
 * another number of bytes than their dtype and shape. `what` names the file. The caller frees,
 * after failures too. */
uint32_t ect_tensors_open(const ec_backend_call *c, ect_text file, const char *what,
                          ect_tensors *out);
void ect_tensors_free(const ec_host *host, ect_tensors *t);
/* Returns NULL if there is no such key. */
const ect_stored *ect_tensors_find(const ect_tensors *t, ect_text key);

#endif
