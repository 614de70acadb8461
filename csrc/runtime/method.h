/* A loaded method: native values, planned memory, delegates.
 *
 * A call consists of lock, binding of every input and optionally outputs (bind.h), execution
 * (exec.h), reading of outputs, unlock.
 *   ec_method_lock(m, NULL, &err);
 *   ec_method_bind_input(m, 0, &array, &err); ...
 *   ec_method_bind_output(m, 0, data, nbytes); ...    optional
 *   ec_method_execute(m, &err);
 *   const ec_value *v = ec_method_output(m, 0); ...
 *   ec_method_unlock(m);
 * Only one thread runs the code between lock and unlock. A failure leaves the method usable. */
#ifndef EC_RUNTIME_METHOD_H
#define EC_RUNTIME_METHOD_H

#include "runtime/load/binding.h"
#include "runtime/exec.h"
#include "runtime/method_types.h"
#include "runtime/program.h"
#include "trace/trace.h"

/* Loads a method. The program must outlive it. Errors: NotFound (name, backend), OperatorMissing
 * (one message that lists all of them), InvalidProgram, InvalidArgument (options for a backend that
 * the method does not use), NotSupported, MemoryAllocationFailed, and errors of backends. */
ec_status ec_method_load(const ec_program *program, const char *name,
                         const ec_method_options *options, ec_method **out, ec_error *err);
/* Loads a method of a program inside a payload, at a nesting depth and on the caller's budget. */
ec_status ec_method_load_nested(const ec_program *program, const char *name,
                                const ec_method_options *options, int depth, ec_method **out,
                                ec_error *err);
void ec_method_free(ec_method *method); /* NULL is allowed */

/* Returns the number of threads for its loops; always 1 without thread pools. */
size_t ec_method_threads(const ec_method *method);

const char *ec_method_name(const ec_method *method);
size_t ec_method_input_count(const ec_method *method);
size_t ec_method_output_count(const ec_method *method);

/* The operators that the method holds, by index in the file; NULL for one that no instruction
 * uses. */
size_t ec_method_operator_count(const ec_method *method);
const struct ec_op *ec_method_operator(const ec_method *method, size_t index);

/* Returns the slot of an input or output, for its kind, dtype, rank, dim order and dynamism. The
 * shape of a dynamic input is that of the last call; ec_program_describe returns the bounds. */
const ec_value *ec_method_input(const ec_method *method, size_t index);
const ec_value *ec_method_output(const ec_method *method, size_t index);

/* Returns false if a thread has the lock. ec_method_lock waits: release the GIL before calling
 * it. */
bool ec_method_try_lock(ec_method *method);
/* Waits until no other thread runs the method, or one that shares memory with it. `interrupt`
 * (NULL: none) is called meanwhile. Errors: InvalidState if this thread already holds the lock, or
 * a thread lost in a fork does; the interrupt's status. */
ec_status ec_method_lock(ec_method *method, const ec_interrupt *interrupt, ec_error *err);
/* True if this thread holds the lock. */
bool ec_method_is_mine(const ec_method *method);
/* Clears all bindings (arrays are no longer referenced) and unlocks. */
void ec_method_unlock(ec_method *method);

/* Records events of the method's calls in a trace until another trace or NULL is set. The caller
 * owns the trace and must hold the lock. */
void ec_method_set_trace(ec_method *method, ec_trace *trace);

/* Attributes: tensors with a fully qualified name (mutable buffers exported with
 * emit_mutable_buffer_names, external weights). Their data is in the method's memory; NULL for
 * tensors without their own memory, whatever the current call assigned. The caller must hold the
 * lock. */
size_t ec_method_attribute_count(const ec_method *method);
const char *ec_method_attribute_name(const ec_method *method, size_t index);
ec_tensor ec_method_attribute(const ec_method *method, size_t index);
/* Returns false for constants of the program, which are read-only. */
bool ec_method_attribute_is_mutable(const ec_method *method, size_t index);

/* Resets all state to that after loading: planned memory zeroed, initialised buffers copied from
 * the file. The caller must hold the lock. */
void ec_method_reset(ec_method *method);

/* Reseeds the random generator of the method's operators. Equal seeds give equal numbers on every
 * machine. The caller must hold the lock. */
void ec_method_seed(ec_method *method, uint64_t seed);

typedef struct ec_method_memory {
  size_t planned;   /* bytes of planned arenas */
  size_t shared;    /* part of `planned` that is shared with other methods of the program */
  size_t native;    /* values, instructions, plans */
  size_t merged;    /* of copies whose operand and result share it */
  size_t folded;    /* constants computed when the method was loaded */
  size_t packed;    /* weights of products, packed in their first call */
  size_t recorded;  /* loops of calls, recorded in their first execution */
  size_t scratch;   /* largest scratch memory of a kernel so far, kept for the next call */
  size_t heap;      /* unbound tensors, staged inputs */
} ec_method_memory;

void ec_method_get_memory(const ec_method *method, ec_method_memory *out);

/* Memory of delegates is not included: see ec_method_report. */

/* The delegates in the file's order, then those made at load, and the backend id of each. */
size_t ec_method_delegate_count(const ec_method *method);
const char *ec_method_delegate_id(const ec_method *method, size_t index);
/* Returns the backend of a delegate and the handle of its init; NULL: there is none. */
const struct ec_backend *ec_method_delegate(const ec_method *method, size_t index, void **handle);
/* Calls that were left to kernels though load-time delegation was asked for: their operator, the
 * reason, and how many they are. Returns false after the last row. */
bool ec_method_undelegated(const ec_method *method, size_t index, const char **op,
                         const char **reason, size_t *calls);
ec_delegation ec_method_delegation(const ec_method *method);

/* Returns whether a pass ran over the method, and the instructions that it changed. */
bool ec_method_pass(const ec_method *method, size_t index, size_t *calls);

/* Returns the kernel calls that a delegate replaces; 0: it is in the file. */
size_t ec_method_delegated_calls(const ec_method *method, size_t index);
/* Returns the backend that took calls of the program inside a payload when it was loaded, and their
 * number; NULL and 0: none. */
const char *ec_method_nested_delegation(const ec_method *method, size_t index, size_t *calls);
/* Calls visit(user, op) for the operator of each call that a delegate replaces. */
void ec_method_visit_delegated(const ec_method *method, size_t index,
                             void (*visit)(void *user, const char *op), void *user);

/* Calls add(user, name, value) for each statistic reported by the backend of delegate `index`. The
 * caller must hold the lock. */
void ec_method_report(const ec_method *method, size_t index,
                      void (*add)(void *user, const char *name, int64_t value), void *user);

#endif
