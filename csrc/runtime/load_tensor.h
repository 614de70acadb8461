/* Tensors of a method. */
#ifndef EC_RUNTIME_LOAD_TENSOR_H
#define EC_RUNTIME_LOAD_TENSOR_H

#include "runtime/decode_values.h"
#include "runtime/native.h"

/* Fills in a tensor and its placement. In planned memory it has an arena and an offset, and gets
 * its address when that memory is there. */
ec_status ec_load_tensor(ec_method *m, const ec_value_row *row, ec_tensor *t,
                         ec_placement *placement, ec_error *err);

#endif
