/* A loaded method: native values, planned memory, delegates.
 *
 * One call is: lock, bind every input and any outputs (bind.h), execute (exec.h), read outputs,
 * unlock.
 *   ec_method_lock(m, NULL, &err);
 *   ec_method_bind_input(m, 0, &array, &err); ...
 *   ec_method_bind_output(m, 0, data, nbytes); ...    optional
 *   ec_method_execute(m, &err);
 *   const ec_value *v = ec_method_output(m, 0); ...
 *   ec_method_unlock(m);
 * Everything between lock and unlock is one thread's. Failure anywhere leaves the method usable. */
#ifndef EC_RUNTIME_METHOD_H
#define EC_RUNTIME_METHOD_H

#include "runtime/bind.h"
#include "runtime/exec.h"
#include "runtime/method_types.h"
#include "runtime/program.h"
#include "trace/trace.h"

/* Loads a method. The program must outlive it. Errors: NotFound (name, backend), OperatorMissing
 * (one sentence that lists all of them), InvalidProgram, InvalidArgument (options for a backend
 * that the method does not use), NotSupported, MemoryAllocationFailed, and what backends say. */
ec_status ec_method_load(const ec_program *program, const char *name,
                         const ec_method_options *options, ec_method **out, ec_error *err);
/* The same without a budget of its own, for a program inside a payload at a nesting depth. */
ec_status ec_method_load_nested(const ec_program *program, const char *name,
                                const ec_method_options *options, int depth, ec_method **out,
                                ec_error *err);
void ec_method_free(ec_method *method); /* NULL is allowed */

/* The number of threads that its loops may use: always 1 where pools are not built in. */
size_t ec_method_threads(const ec_method *method);

const char *ec_method_name(const ec_method *method);
size_t ec_method_input_count(const ec_method *method);
size_t ec_method_output_count(const ec_method *method);

/* The operators that it holds, by index in the file; NULL for one that no instruction needs. */
size_t ec_method_operator_count(const ec_method *method);
const struct ec_op *ec_method_operator(const ec_method *method, size_t index);

/* The slot of an input or output, for its kind, dtype, rank, dim order and dynamism. The shape of a
 * dynamic input is that of the last call; ec_program_describe has the bounds. */
const ec_value *ec_method_input(const ec_method *method, size_t index);
const ec_value *ec_method_output(const ec_method *method, size_t index);

/* False where a thread has it: ec_method_lock waits, so give up the GIL before. */
bool ec_method_try_lock(ec_method *method);
/* Waits until no other thread has the method, or one that shares memory with it; `interrupt` (NULL:
 * nobody) is asked meanwhile. Errors: InvalidState where this very thread has it, or where one had
 * it that a fork has left in the other process; what the interrupt says. */
ec_status ec_method_lock(ec_method *method, const ec_interrupt *interrupt, ec_error *err);
/* True while this thread has it. */
bool ec_method_is_mine(const ec_method *method);
/* Forgets all bindings (arrays are no longer referred to) and unlocks. */
void ec_method_unlock(ec_method *method);

/* Has the calls of the method leave events in a trace, until another one or NULL is set. The caller
 * owns it. Call it locked. */
void ec_method_set_trace(ec_method *method, ec_trace *trace);

/* Attributes: tensors with a fully qualified name (mutable buffers exported with
 * emit_mutable_buffer_names, external weights). Their data is the method's memory: NULL where they
 * have none of their own, whatever the present call has made of them. Call it locked. */
size_t ec_method_attribute_count(const ec_method *method);
const char *ec_method_attribute_name(const ec_method *method, size_t index);
ec_tensor ec_method_attribute(const ec_method *method, size_t index);
/* False for constants of the program, which may not be written. */
bool ec_method_attribute_is_mutable(const ec_method *method, size_t index);

/* Puts all state back to what it was after loading: planned memory zeroed, initialised buffers from
 * the file. Call it locked. */
void ec_method_reset(ec_method *method);

/* Starts the random numbers of the method's operators anew: equal seeds give equal numbers, on any
 * machine. Call it locked. */
void ec_method_seed(ec_method *method, uint64_t seed);

typedef struct ec_method_memory {
  size_t planned;   /* bytes of planned arenas */
  size_t shared;    /* of which shared with other methods of the program */
  size_t native;    /* values, instructions, plans */
  size_t scratch;   /* largest need of a kernel so far, kept for the next call */
  size_t heap;      /* unbound tensors, staged inputs */
} ec_method_memory;

void ec_method_get_memory(const ec_method *method, ec_method_memory *out);

/* Allocated bytes and blocks of delegates are theirs and not counted: see ec_method_report. */

/* The delegates, in the file's order, and the id of the backend of each. */
size_t ec_method_delegate_count(const ec_method *method);
const char *ec_method_delegate_id(const ec_method *method, size_t index);

/* Calls add(user, name, value) for each figure that the backend of delegate `index` reports. Call
 * it locked. */
void ec_method_report(const ec_method *method, size_t index,
                      void (*add)(void *user, const char *name, int64_t value), void *user);

#endif
