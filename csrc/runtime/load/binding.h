/* Binding: the caller's inputs and outputs of one call, checked before anything runs. */
#ifndef EC_RUNTIME_LOAD_BINDING_H
#define EC_RUNTIME_LOAD_BINDING_H

#include "runtime/method_types.h"

/* True if some of the bytes are the method's own memory: the array of an attribute. The program may
 * read or write it during a call. */
bool ec_method_owns(const ec_method *method, const void *data, size_t size);

/* Binds input `index`. The kind must be a tensor, dtype and rank must be equal, and the program
 * must allow the sizes. Memory in the program's own layout is used in place unless the program
 * writes to this input or shares its memory, or the array is the method's own memory. Any other
 * layout is copied by index at execution, so a channels-last array is never misread. Errors:
 * InvalidArgument (naming the input, found, expected), NotSupported (sizes: the reference's
 * code). */
ec_status ec_method_bind_input(ec_method *method, size_t index, const ec_array *array,
                               ec_error *err);

/* Binds an input that is not a tensor. A number or string must equal the traced value (doubles
 * within atol 1e-4, rtol 1e-5, as in the reference). None fits a None slot. */
ec_status ec_method_bind_scalar(ec_method *method, size_t index, ec_scalar scalar, ec_error *err);
ec_status ec_method_bind_string(ec_method *method, size_t index, const char *text, ec_error *err);
ec_status ec_method_bind_none(ec_method *method, size_t index, ec_error *err);

/* True if the output is a tensor of static shape. Its memory can be bound before the call. */
bool ec_method_output_is_static(const ec_method *method, size_t index);

/* Binds the caller's memory to a static output: dense in the output's dim order, `nbytes` long,
 * aligned to its item size, not overlapping any input or the method's memory. Execution writes the
 * result to it, directly where the plan allows. */
ec_status ec_method_bind_output(ec_method *method, size_t index, void *data, size_t nbytes,
                                ec_error *err);

/* True if the program changes the input in place: it has no planned memory, and an instruction
 * writes to it. The caller's array is unchanged; until unlock, ec_method_input is the changed
 * tensor. */
bool ec_method_input_is_mutated(const ec_method *method, size_t index);

#endif
