/* NumPy's files: .npy, and .npz without compression. */
#ifndef EC_TOOLS_NPY_H
#define EC_TOOLS_NPY_H

#include <stdio.h>

#include "executorch_c/executorch_c.h"

enum { NPY_MAX_RANK = 16, NPY_NAME = 128, NPY_VOID2 = -2 }; /* a dtype of two unnamed bytes */

typedef struct npy_array {
  char name[NPY_NAME]; /* in a .npz, without ".npy" */
  int32_t dtype;       /* an ecr_dtype, or NPY_VOID2 (bfloat16) */
  uint32_t rank;
  int64_t sizes[NPY_MAX_RANK], strides[NPY_MAX_RANK]; /* strides in bytes */
  const uint8_t *data; /* in the file */
  size_t nbytes;
} npy_array;

/* Reads a .npy file in memory. Returns NULL, or what is wrong. */
const char *npy_read(const uint8_t *data, size_t size, npy_array *out);
/* Finds the next array of a .npz file from *at on; out->data is NULL after the last. Returns NULL,
 * or what is wrong. */
const char *npz_next(const uint8_t *data, size_t size, size_t *at, npy_array *out);
/* Writes a tensor as .npy. Returns false if the file cannot be written. */
bool npy_write(FILE *file, const ecr_tensor *t);

#endif
