/* One call of an operator: its arguments, checked, and their elements. */
#ifndef EMO_CALL_H
#define EMO_CALL_H

#include "executorch_c/arguments.h"

enum { EMO_MAX_RANK = 16 };

typedef struct emo_call {
  const ec_host *host;
  ec_host_call *call;
  ec_backend_arg *args;
} emo_call;

/* Checks that argument `i` is a row-major tensor of floats. */
uint32_t emo_floats(const emo_call *c, size_t i, const char *name, const ec_backend_tensor **out);
/* The same for any dtype. */
uint32_t emo_tensor(const emo_call *c, size_t i, const char *name, const ec_backend_tensor **out);
/* NULL for None. */
uint32_t emo_optional(const emo_call *c, size_t i, const char *name, const ec_backend_tensor **out);
/* The last argument, resized; any dtype, or that of `like` if it is not NULL. */
uint32_t emo_output(const emo_call *c, size_t i, size_t rank, const int64_t *sizes,
                    const ec_backend_tensor *like, const ec_backend_tensor **out);
/* Reads an axis of a tensor. */
uint32_t emo_axis(const emo_call *c, int64_t number, size_t rank, size_t *out);
/* Finds the common shape of two; `what` names them. */
uint32_t emo_broadcast(const emo_call *c, const int64_t *a, size_t a_rank, const int64_t *b,
                       size_t b_rank, int64_t *out, size_t *rank);
/* Returns the element of a shape that broadcasts to another at a flat position. */
int64_t emo_place(const int64_t *sizes, size_t rank, const int64_t *all, size_t all_rank,
                  int64_t at);

/* Elements before and after an axis. */
int64_t emo_product(const int64_t *sizes, size_t first, size_t end);

/* Reads an index of `limit` places, from the end if it is negative. */
uint32_t emo_index(const emo_call *c, const ec_backend_tensor *indices, int64_t at, int64_t limit,
                   int64_t *out);

/* Reads an element of any dtype but 64-bit floats, or writes one. */
double emo_load(const ec_backend_tensor *t, int64_t at);
int64_t emo_load_int(const ec_backend_tensor *t, int64_t at);
void emo_store_at(const ec_backend_tensor *t, int64_t at, double value);
void emo_store_int(const ec_backend_tensor *t, int64_t at, int64_t value);
bool emo_is_float(int32_t dtype);

#endif
