/* A loaded method: native values, planned memory, delegates, and the executor.
 *
 * One call is: lock, bind every input and any outputs, execute, read outputs, unlock.
 *   ec_method_lock(m, NULL, &err);
 *   ec_method_bind_input(m, 0, &array, &err); ...
 *   ec_method_bind_output(m, 0, data, nbytes); ...    optional
 *   ec_method_execute(m, &err);
 *   const ec_value *v = ec_method_output(m, 0); ...
 *   ec_method_unlock(m);
 * Everything between lock and unlock is one thread's. Failure anywhere leaves the method usable. */
#ifndef EC_RUNTIME_METHOD_H
#define EC_RUNTIME_METHOD_H

#include "core/budget.h"
#include "core/value.h"
#include "executorch_c/backend.h"
#include "runtime/program.h"
#include "trace/trace.h"

typedef struct ec_method ec_method;

/* Options for the delegates of one backend. */
typedef struct ec_backend_options {
  const char *id;
  const ec_backend_option *items;
  size_t count;
} ec_backend_options;

typedef struct ec_method_options {
  bool reference_kernels; /* plain loops only */
  bool seeded;            /* random operators start from `seed`, else from the system's entropy */
  uint64_t seed;
  size_t threads; /* that loops may use, the caller's among them; 0: ec_threads_default() */
  const ec_backend_options *backends; /* copied; one for each id */
  size_t backend_count;
  uint64_t max_steps, max_bytes; /* of loading, and of each call; 0: see ec_method_budget */
  const ec_interrupt *interrupt; /* asked while the method is loaded; NULL: nobody is */
} ec_method_options;

/* Loads a method. The program must outlive it. Errors: NotFound (name, backend), OperatorMissing
 * (one sentence that lists all of them), InvalidProgram, InvalidArgument (options for a backend
 * that the method does not use), NotSupported, MemoryAllocationFailed, and what backends say. */
ec_status ec_method_load(const ec_program *program, const char *name,
                         const ec_method_options *options, ec_method **out, ec_error *err);
void ec_method_free(ec_method *method); /* NULL is allowed */

/* How many threads its loops may use: 1 where pools are not built in, whatever was asked for. */
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
/* Whether this thread has it. */
bool ec_method_is_mine(const ec_method *method);
/* Forgets all bindings (arrays are no longer referred to) and unlocks. */
void ec_method_unlock(ec_method *method);

/* What a call may cost: as the method was loaded with; where nothing was said, half the memory of
 * the machine, and EC_MAX_INSTRUCTIONS instructions of any size. It is to be the thread's before
 * inputs are bound, and until outputs are read. */
void ec_method_budget(const ec_method *method, const ec_interrupt *interrupt, ec_budget *out);

/* An array of the caller's; it must stay valid until unlock. */
typedef struct ec_array {
  void *data; /* of element (0, 0, ...) */
  ec_dtype dtype;
  size_t rank;
  const int64_t *sizes;
  const int64_t *strides; /* in BYTES; any, negative and zero too */
} ec_array;

/* Binds input `index`: kind must be a tensor, dtype and rank equal, sizes allowed by the program.
 * Memory of the program's own layout is used in place unless the program writes to this input or
 * shares its memory; any other layout is copied by index when executing (a channels-last array is
 * never misread). Errors: InvalidArgument (naming the input, found, expected), NotSupported
 * (sizes: the reference's code). */
ec_status ec_method_bind_input(ec_method *method, size_t index, const ec_array *array,
                               ec_error *err);

/* Binds an input that is not a tensor. A number or string must equal the traced value (doubles
 * within atol 1e-4, rtol 1e-5, as in the reference); None fits a None slot. */
ec_status ec_method_bind_scalar(ec_method *method, size_t index, ec_scalar scalar, ec_error *err);
ec_status ec_method_bind_string(ec_method *method, size_t index, const char *text, ec_error *err);
ec_status ec_method_bind_none(ec_method *method, size_t index, ec_error *err);

/* Whether output `index` is a tensor of fixed shape, so that its memory can be given beforehand. */
bool ec_method_output_is_static(const ec_method *method, size_t index);

/* Lends memory for such an output: dense in the output's own dim order, `nbytes` long, aligned to
 * its item size, not overlapping any input. Execution writes the result there, directly where the
 * plan allows it. */
ec_status ec_method_bind_output(ec_method *method, size_t index, void *data, size_t nbytes,
                                ec_error *err);

/* Has the calls of the method leave events in a trace, until another one or NULL is set. The caller
 * owns it. Call it locked. */
void ec_method_set_trace(ec_method *method, ec_trace *trace);

/* Runs the method on the thread's budget (one of its own where it has none): all inputs must be
 * bound. Does not need the GIL. Errors name method, instruction and operator. */
ec_status ec_method_execute(ec_method *method, ec_error *err);

/* Whether the program means input `index` to be changed in place: it has no planned memory, and an
 * instruction writes to it. The caller's array stays as it was; until unlock, ec_method_input is
 * the changed tensor. */
bool ec_method_input_is_mutated(const ec_method *method, size_t index);

/* Attributes: tensors with a fully qualified name (mutable buffers exported with
 * emit_mutable_buffer_names, external weights). Their data is the method's memory: NULL where they
 * have none of their own, whatever the present call has made of them. Call it locked. */
size_t ec_method_attribute_count(const ec_method *method);
const char *ec_method_attribute_name(const ec_method *method, size_t index);
ec_tensor ec_method_attribute(const ec_method *method, size_t index);
/* Whether it may be written: constants of the program may not. */
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
