/* Tensors of a node's several calls, whose sizes may vary. */
#ifndef ECN_ARRAYS_H
#define ECN_ARRAYS_H

#include "step.h"

/* A tensor of the program. */
typedef struct ecn_array {
  int64_t value;
  ect_tensor t;
} ecn_array;

/* A size: a number, or one of a tensor when the program runs. */
typedef struct ecn_size {
  int64_t bound;
  bool varies;
  int64_t of; /* the tensor; ECT_NO_VALUE: computed from the number of elements (-1) */
  uint32_t dimension;
} ecn_size;

/* Fails with the node's name. */
#define ECN_REFUSE(s, ...) ect_refuse((s)->g, EC_BACKEND_NOT_SUPPORTED, __VA_ARGS__)

/* Returns argument `i` in `out`; fails if it is not a tensor. */
uint32_t ecn_argument(const ecn_step *s, size_t i, ecn_array *out);
ecn_size ecn_size_of(const ecn_array *a, uint32_t dimension);
ecn_size ecn_size_number(int64_t number);
/* Returns a list of sizes as a value of the program. */
int64_t ecn_size_list(const ecn_step *s, const ecn_size *sizes, uint32_t rank);

/* Adds a call with a result of the shape of `*out`, whose value is set. */
uint32_t ecn_call(const ecn_step *s, const char *op, const int64_t *args, size_t count,
                  ecn_array *out);
/* Sets the shape of a tensor. */
void ecn_set_shape(ect_tensor *t, const ecn_size *sizes, uint32_t rank);
/* Adds a view, or an expansion: `*a` becomes the result. */
uint32_t ecn_view(const ecn_step *s, ecn_array *a, const ecn_size *sizes, uint32_t rank);
uint32_t ecn_expand(const ecn_step *s, ecn_array *a, const ecn_size *sizes, uint32_t rank);
/* Swaps the last two dimensions of `*a`. */
uint32_t ecn_transpose(const ecn_step *s, ecn_array *a);
/* Converts `*a`. */
void ecn_convert(const ecn_step *s, ecn_array *a, int32_t dtype);
/* Makes `a`, which the last call has computed, the node's result. Traces show that call. */
uint32_t ecn_return(const ecn_step *s, const ecn_array *a);

/* Multiplies as torch.matmul does: batches broadcast. */
uint32_t ecn_matmul(const ecn_step *s, ecn_array a, ecn_array b, ecn_array *out);

#endif
