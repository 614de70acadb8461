/* Weights that a program dequantises when it is loaded, as integers. */
#ifndef ECX_DELEGATE_AT_LOAD_WEIGHTS_H
#define ECX_DELEGATE_AT_LOAD_WEIGHTS_H

#include "delegate_at_load/delegation.h"

/* int8 numbers with a scale for all or for each index of a dimension, and zero point 0. */
typedef struct ecx_weights {
  const ec_backend_value *codes;         /* int8 constant */
  int64_t strides[XNN_MAX_TENSOR_DIMS];  /* in it, of the dimensions of the floats */
  const ec_backend_value *scales;        /* float32 or float64 constant; NULL: `scale` */
  double scale;
  size_t axis; /* of the scales, among the dimensions of the floats */
} ecx_weights;

/* Finds the integers that a constant of floats was dequantised and permuted from. */
bool ecx_find_weights(const ec_backend_value *v, ecx_weights *out);

/* Copies weights as ecx_copy_constant does; `count` channels are dimension `dim` of the shape, and
 * have the scales in turn. Returns the id of a qcint8 constant. */
uint32_t ecx_copy_weights(ecx_delegation *b, const ecx_weights *w, const ecx_shape *shape,
                          const size_t dims[5], const int64_t strides[5], size_t dim, size_t count,
                          const char *key);

/* Makes the filter of a node floats, unless its input is quantised. */
void ecx_settle_weights(ecx_draft *d, ecx_draft_node *n);

#endif
