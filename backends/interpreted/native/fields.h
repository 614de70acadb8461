/* Numbers of the schema: field ids of schema.def, and the types of its unions and enums. */
#ifndef ECN_FIELDS_H
#define ECN_FIELDS_H

enum {
#define EC_FB_PREFIX ECN
#include "format/fields.h"
#include "schema.def"
#undef EC_FB_PREFIX
};

/* Union ArgumentValue. */
enum {
  ECN_TENSOR = 1, ECN_NONE, ECN_INT, ECN_FLOAT, ECN_BOOL, ECN_STRING, ECN_SCALAR_TYPE,
  ECN_INT_LIST, ECN_FLOAT_LIST, ECN_BOOL_LIST, ECN_TENSOR_LIST, ECN_OPTIONAL_TENSOR_LIST,
  ECN_GRAPH, ECN_TYPES
};

/* Union QuantScheme. */
enum { ECN_AFFINE_GROUP = 1, ECN_PACKED_QUANT, ECN_SCHEMES };

/* Enums OpKind, OutputKind and OutputValueKind. */
enum { ECN_CALL, ECN_PLACEHOLDER, ECN_OUTPUT };
enum { ECN_USER_OUTPUT, ECN_BUFFER_MUTATION, ECN_INPUT_MUTATION };
enum { ECN_TENSOR_OUT, ECN_TENSOR_LIST_OUT, ECN_INT_OUT, ECN_BOOL_OUT, ECN_FLOAT_OUT };

#endif
