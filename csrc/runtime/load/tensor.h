/* Tensors of a method. */
#ifndef EC_RUNTIME_LOAD_TENSOR_H
#define EC_RUNTIME_LOAD_TENSOR_H

#include "runtime/load/decode_values.h"
#include "runtime/native.h"

/* Fills in a tensor and its placement. A planned tensor gets an arena and an offset; its address
 * follows when the arena is allocated. */
ec_status ec_load_tensor(ec_method *m, const ec_value_row *row, ec_tensor *t,
                         ec_placement *placement, ec_error *err);

#endif
