/* Numbers of dtypes and operators in payloads of TOSA. */
#ifndef ETS_DTYPES_H
#define ETS_DTYPES_H

#include "../graph.h"

/* DType of the schema. */
typedef enum ets_dtype {
#define ETS_DTYPE(number, name, text, scalar_type, bits) ETS_##name = (number),
#include "dtypes.def"
#undef ETS_DTYPE
  ETS_DTYPES = 19
} ets_dtype;

/* Numbers of operators. */
enum {
#define ETS_OP(number, name, ...) ETS_##name = (number),
#include "operators.def"
  ETS_OPERATORS = 97
};

enum { ETS_NAN_IGNORED = 2 }; /* a nan_mode; others propagate NaN */

/* Sets the operator's name, "CONV2D"; constants are not shown. */
void ets_name_node(ect_node *n);
/* Sets the dtype of a tensor or shape. A shape is a list of ints in `sizes`. */
void ets_set_dtype(ect_operand *o, uint32_t dtype);
/* The c10::ScalarType of a dtype; -1: none. */
int32_t ets_scalar_type(uint32_t dtype);

#endif
