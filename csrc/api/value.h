/* Values of the interface. */
#ifndef EC_API_VALUE_H
#define EC_API_VALUE_H

#include "executorch_c/executorch_c.h"
#include "runtime/load/decode_values.h"

/* Describes a value of a file; its sizes are borrowed. */
ecr_value ecr_described(const ec_value_info *info);
/* Converts a number, string or None; ECR_OTHER for the rest. */
ecr_value ecr_converted(const ec_value *value);

#endif
