/* Packing of arguments: an operator's schema, and the values given for its arguments. */
#ifndef ECT_PACK_H
#define ECT_PACK_H

#include "values.h"

enum { ECT_MAX_ARGS = 40, ECT_SCHEMA_BYTES = 1024 };

typedef struct ect_parameter {
  char name[48];
  bool is_list, is_optional;
  bool is_tensor, is_double;
  bool is_out;            /* after the *, and written */
  const char *otherwise;  /* text of the default in the schema; NULL: none */
} ect_parameter;

typedef struct ect_schema {
  char text[ECT_SCHEMA_BYTES];
  ect_parameter parameters[ECT_MAX_ARGS];
  size_t count, out_count;
} ect_schema;

/* Reads the schema of an operator of the host. Fails if there is none. */
uint32_t ect_schema_find(const ec_host *host, ec_host_call *call, const char *op,
                         ect_schema *out);

/* Adds a call of `op`. `values` are in the order of the schema's parameters; ECT_NO_VALUE,
 * and missing ones at the end, take the default. One number for a list of ints becomes a list.
 * `outs` are the results, one for each out. `what` names the payload's node in messages. */
uint32_t ect_pack_call(ec_host_call *call, ect_program *p, const char *op, const int64_t *values,
                       size_t value_count, const int64_t *outs, size_t out_count,
                       const ec_backend_node *node, const char *what);

#endif
