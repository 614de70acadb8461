/* Arguments of an operator: checks, and tensors as loops address them. */
#ifndef CORTEX_M_ARGUMENTS_H
#define CORTEX_M_ARGUMENTS_H

#include "executorch_c/arguments.h"

enum { CM_RANK = 16 }; /* most dimensions of a tensor (backend.h) */

/* One call of an operator. */
typedef struct cm_call {
  const ec_host *host;
  ec_host_call *call;
  ec_backend_arg *args;
} cm_call;

static inline const ec_backend_tensor *cm_tensor(const cm_call *c, size_t i) {
  return &c->args[i].as.tensor;
}

/* Checks the dtype of argument `i`, and its rank unless `rank` is negative. */
static inline uint32_t cm_check(const cm_call *c, size_t i, const char *name, int32_t dtype,
                                int rank) {
  return EC_ARG_CHECK(c, i, name, EC_ARG_SET(dtype), rank);
}

/* Checks that argument `i` has `count` elements of a dtype, one after another in memory. */
uint32_t cm_check_vector(const cm_call *c, size_t i, const char *name, int32_t dtype,
                         int64_t count);

/* Reads an int argument that CMSIS-NN takes as an int32_t. */
uint32_t cm_int32(const cm_call *c, size_t i, const char *name, int32_t *out);

/* Reads an int[] argument with an item for each of two dimensions, each in [least, 2^20]. With
 * `single`, one item stands for both. */
uint32_t cm_pair(const cm_call *c, size_t i, const char *name, int64_t least, bool single,
                 int64_t out[2]);

/* A 4-D tensor of int8: sizes and strides in elements, whatever its layout. */
typedef struct cm_image {
  int8_t *data;
  int64_t n, c, h, w;
  int64_t by_n, by_c, by_h, by_w;
} cm_image;

/* Returns argument `i`, of sizes [N, C, H, W], or [N, H, W, C] if `nhwc`. */
cm_image cm_image_of(const ec_backend_tensor *t, bool nhwc);

/* Resizes output `i` to the sizes of `image`, and sets its data and strides. */
uint32_t cm_resize_image(const cm_call *c, size_t i, bool nhwc, cm_image *image);

#endif
