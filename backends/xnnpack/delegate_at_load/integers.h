/* Quantised values of a run. */
#ifndef ECX_DELEGATE_AT_LOAD_INTEGERS_H
#define ECX_DELEGATE_AT_LOAD_INTEGERS_H

#include "delegate_at_load/delegation.h"

/* True for the row of an operator whose scale is chosen in each call. */
bool ecx_is_dynamic_quantization(const ecx_operator *row);

/* Returns the id of a value that is quantised as it comes, for a layer of integers; ECX_NONE: it is
 * not. */
uint32_t ecx_read_dynamic(ecx_delegation *b, const ec_backend_value *v);
/* Lets a view of such a value be read like it. Returns false if it is none. */
bool ecx_view_dynamic(ecx_delegation *b, const ec_backend_value *v, const ec_backend_value *out,
                      size_t inferred);

#endif
