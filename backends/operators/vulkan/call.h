/* One call of an operator: its arguments, checked. */
#ifndef EVO_CALL_H
#define EVO_CALL_H

#include "executorch_c/arguments.h"

typedef struct evo_call {
  const ec_host *host;
  ec_host_call *call;
  ec_backend_arg *args;
} evo_call;

/* Checks that argument `i` is a row-major tensor with a dtype and at least `rank` dimensions. */
uint32_t evo_tensor(const evo_call *c, size_t i, int32_t dtype, size_t rank,
                    const ec_backend_tensor **out);
/* The same; NULL for None. */
uint32_t evo_optional(const evo_call *c, size_t i, int32_t dtype, const ec_backend_tensor **out);
/* Sets the shape of an output, and checks its dtype and layout. Returns its data. */
uint32_t evo_output(const evo_call *c, size_t i, int32_t dtype, size_t rank, const int64_t *sizes,
                    void *out);
/* Checks that a vector has at least `count` elements; exporters pad vectors. */
uint32_t evo_check_least(const evo_call *c, const ec_backend_tensor *t, int64_t count,
                         const char *name);
/* Reads an activation: "none" or "relu". */
uint32_t evo_activation(const evo_call *c, size_t i, bool *relu);
/* Elements in all dimensions but the last. */
int64_t evo_rows(const ec_backend_tensor *t);

#endif
