/* A complete method as stored in its file: every value and every instruction, without loading it.
 * No memory is planned and no delegate created, so programs that cannot run here can be inspected.
 * Invalid rows (an index out of range, a value of unknown kind, a tensor outside of planned memory)
 * fail with the errors of loading: both decode the same rows. */
#ifndef EC_RUNTIME_INSPECT_H
#define EC_RUNTIME_INSPECT_H

#include "kernels/op.h"
#include "runtime/load/decode_values.h"

/* The access of an instruction to an argument. */
typedef enum ec_role {
  EC_ROLE_IN,
  EC_ROLE_OUT,    /* overwritten */
  EC_ROLE_INOUT,  /* read and written: `self` of copy_ */
  EC_ROLE_RETURN, /* placeholder of a result that is another argument already */
  EC_ROLES
} ec_role;

typedef struct ec_inspect_arg {
  uint32_t value;
  uint8_t role;     /* an ec_role */
  const char *name; /* of the operator's schema; NULL without one */
} ec_inspect_arg;

/* A line of the user's model that an instruction comes from, if the exporter stored it. */
typedef struct ec_inspect_frame {
  const char *file, *function, *context; /* NULL if absent */
  int32_t line;
} ec_inspect_frame;

typedef struct ec_inspect_instr {
  ec_instr_row row;
  bool available;       /* KernelCall: a kernel exists */
  const char *name;     /* KernelCall: of the operator; DelegateCall: of the backend; else NULL */
  ec_inspect_arg *args; /* row.arg_count arguments */
  ec_inspect_frame *frames;
  size_t frame_count;
} ec_inspect_instr;

typedef struct ec_inspect_chain {
  ec_inspect_instr *instrs;
  size_t count;
} ec_inspect_chain;

/* Strings, bytes and lists live as long as the program. */
typedef struct ec_inspection {
  const char *name;
  ec_value_row *values;
  uint32_t *inputs, *outputs; /* indices of values */
  ec_delegate_row *delegates;
  ec_inspect_chain *chains;
  int64_t *arenas; /* bytes of planned memory 1, 2, ... */
  const ec_op **ops; /* by index in the file; NULL: no kernel */
  size_t value_count, input_count, output_count, delegate_count, chain_count, arena_count, op_count;
  ec_arena arena;
} ec_inspection;

/* Errors: InvalidProgram, NotSupported, those of loading the method. */
ec_status ec_inspection_init(const ec_program *program, size_t method, ec_inspection *out,
                             ec_error *err);
void ec_inspection_deinit(ec_inspection *inspection);

/* Describes a delegate's payload through its backend. `*supported` is false if the backend is
 * missing or cannot describe payloads. */
ec_status ec_inspect_delegate(const ec_program *program, const ec_inspection *inspection,
                              size_t delegate, const ec_backend_visitor *visitor, bool *supported,
                              ec_error *err);

/* Returns true if a method calls an operator that needs a KV cache of the caller's, or if a payload
 * does, as far as its backend says. */
bool ec_program_uses_kv_cache(const ec_program *program, size_t method);

#endif
