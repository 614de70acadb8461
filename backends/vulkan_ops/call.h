/* One call of an operator: its arguments, checked. */
#ifndef EVO_CALL_H
#define EVO_CALL_H

#include "executorch_c/operator.h"

enum { EVO_UINT8 = 0, EVO_INT8 = 1, EVO_INT32 = 3, EVO_INT64 = 4, EVO_FLOAT32 = 6, EVO_BOOL = 11 };

typedef struct evo_call {
  const ec_host *host;
  ec_host_call *call;
  ec_backend_arg *args;
} evo_call;

#define evo_fail(c, ...) ((c)->host->fail((c)->call, EC_BACKEND_INVALID_ARGUMENT, __VA_ARGS__))

#define EVO_TRY(expression)                                                                        \
  do {                                                                                             \
    const uint32_t evo_try_status = (expression);                                                  \
    if (evo_try_status) return evo_try_status;                                                     \
  } while (0)

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
/* Copies a list of `count` ints (one stands for all). */
uint32_t evo_ints(const evo_call *c, size_t i, size_t count, int64_t *out);
/* Temporary memory for `count` elements. */
uint32_t evo_scratch(const evo_call *c, size_t count, size_t size, void *out);

int64_t evo_elements(const ec_backend_tensor *t);
/* Elements in all dimensions but the last. */
int64_t evo_rows(const ec_backend_tensor *t);

#endif
