/* Arguments of calls, and their forms in the draft. */
#ifndef ECX_DELEGATE_AT_LOAD_FORMS_H
#define ECX_DELEGATE_AT_LOAD_FORMS_H

#include "delegate_at_load/delegation.h"

/* The value of a tensor argument; NULL: None. */
const ec_backend_value *ecx_arg_value(const ec_backend_kernel_call *call, size_t i);
/* The last argument, a result. */
static inline const ec_backend_value *ecx_arg_out(const ec_backend_kernel_call *call) {
  return ecx_arg_value(call, call->count - 1);
}
/* Lists of integers: fewer items than `count` are repeated. False if there are none. */
bool ecx_arg_ints(const ec_backend_kernel_call *call, size_t i, size_t count, int64_t *out);
/* Numbers of any kind. */
bool ecx_arg_number(const ec_backend_kernel_call *call, size_t i, double *out);
int64_t ecx_arg_int(const ec_backend_kernel_call *call, size_t i);
bool ecx_arg_bool(const ec_backend_kernel_call *call, size_t i);
bool ecx_arg_is_none(const ec_backend_kernel_call *call, size_t i);

/* The form that the value's memory has; ECX_FORMS: none of them. */
ecx_form ecx_memory_form(const ec_backend_value *v);
/* Sizes in order of the dimensions, or in memory order of a form; a scalar is a row of one. */
ecx_shape ecx_shape_of(const ec_backend_value *v, ecx_form form);
/* The place of a dimension in a form. */
size_t ecx_dim_in(const ec_backend_value *v, ecx_form form, size_t dim);
/* True for values that may have channels last. */
bool ecx_can_be_last(const ec_backend_value *v);
size_t ecx_elements(const ec_backend_value *v);
bool ecx_is_constant(const ec_backend_value *v);
/* True for a constant matrix whose columns are contiguous. */
bool ecx_is_turned(const ec_backend_value *v);
bool ecx_has_shape(const ec_backend_value *v, size_t rank, const int64_t *sizes);

/* Makes the first form of a constant or of a view. */
void ecx_prepare(ecx_delegation *b, const ec_backend_value *v);
/* True if a form has been made. */
bool ecx_has_form(const ecx_delegation *b, const ec_backend_value *v, ecx_form form);
/* The form that costs nothing. */
ecx_form ecx_best_form(const ecx_delegation *b, const ec_backend_value *v);
/* Returns the id of a form, made if necessary. */
uint32_t ecx_read(ecx_delegation *b, const ec_backend_value *v, ecx_form form);
/* Lets a call be declined if a value is not finite: the node that reads it may lose NaN. Inputs are
 * watched anyway. A watched value is in memory, so that XNNPACK fuses no clamp into its node. */
void ecx_watch(ecx_delegation *b, uint32_t id);
/* Returns the id of a form that has the elements in plain order, perhaps in another shape. */
uint32_t ecx_read_flat(ecx_delegation *b, const ec_backend_value *v);
/* Makes a form of a result, and returns its id. */
uint32_t ecx_write(ecx_delegation *b, const ec_backend_value *v, ecx_form form);
/* Makes an existing id a form of the result. Ids with integers are forms of values that are read as
 * floats, too. */
void ecx_bind(ecx_delegation *b, const ec_backend_value *v, ecx_form form, uint32_t id);

/* Adds a reshape or a transposition; returns the id of its result. Size `inferred` of the shape is
 * what the number of elements leaves; ECX_NONE: none is. */
uint32_t ecx_reshape(ecx_delegation *b, uint32_t id, const ecx_shape *shape, size_t inferred);
uint32_t ecx_transpose(ecx_delegation *b, uint32_t id, const size_t *perm);
/* Returns the id of an operand, of rank `of` or constant, that broadcasts to values of this rank
 * with channels last. */
uint32_t ecx_read_spread(ecx_delegation *b, const ec_backend_value *v, size_t of);
/* True if integers stand for the same numbers: for codings with one scale. */
bool ecx_is_same_coding(const ecx_coding *a, const ecx_coding *b);
/* Returns the id of the integers that an id is dequantised from; ECX_NONE: it is not. */
uint32_t ecx_integers_of(const ecx_draft *d, uint32_t id);
/* Returns the id of integers as floats. */
uint32_t ecx_dequantize(ecx_delegation *b, uint32_t id);
/* Returns the id of floats as these integers. */
uint32_t ecx_convert(ecx_delegation *b, uint32_t id, const ecx_coding *coding);
/* Returns the id of a result with the coding of another value. */
uint32_t ecx_result_like(ecx_delegation *b, uint32_t id, const ecx_shape *shape);
/* True if nothing else reads the id, now or in later calls, than its only reader so far. */
bool ecx_is_read_once(const ecx_delegation *b, uint32_t id);

/* Returns the id of a constant number. */
uint32_t ecx_number(ecx_delegation *b, float value);

/* Copies `dims` elements of 1 or 4 bytes from a constant with these strides. `key` may be NULL. */
uint32_t ecx_copy_constant(ecx_delegation *b, const ec_backend_value *v, const ecx_shape *shape,
                           const size_t dims[5], const int64_t strides[5], const char *key);

#endif
