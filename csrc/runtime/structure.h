/* The whole of a method as its file has it: every value and every instruction, without loading it.
 * No memory is planned and no delegate made: programs that cannot run here can be looked at. What
 * has no meaning (an index out of range, a value of unknown kind, a tensor outside of planned
 * memory) fails as it does when the method is loaded. */
#ifndef EC_RUNTIME_STRUCTURE_H
#define EC_RUNTIME_STRUCTURE_H

#include "executorch_c/backend.h"
#include "kernels/op.h"
#include "runtime/program.h"

/* Where a value's data is. */
typedef enum ec_place {
  EC_PLACE_NONE,     /* nowhere: it is no tensor, or gets its memory when it runs */
  EC_PLACE_PLANNED,  /* planned memory */
  EC_PLACE_STATE,    /* planned memory that is filled from the file first */
  EC_PLACE_CONSTANT, /* the file */
  EC_PLACE_EXTERNAL, /* named data, by the tensor's name */
  EC_PLACES
} ec_place;

typedef struct ec_value_row {
  ec_value_info info;
  uint8_t place;    /* an ec_place */
  uint32_t arena;   /* 1-based; 0: none */
  uint64_t offset;  /* in the arena */
  uint32_t buffer;  /* data_buffer_idx */
  int64_t at;       /* of its bytes in the file; -1: they are not there */
  int64_t *items;   /* of lists of ints and tensors: indices of values (-1: None); of bools: 0, 1 */
  double *doubles;  /* of a list of doubles */
  size_t item_count;
} ec_value_row;

/* What an instruction does with an argument. */
typedef enum ec_role {
  EC_ROLE_IN,
  EC_ROLE_OUT,    /* written, whatever it held */
  EC_ROLE_INOUT,  /* read and written: `self` of copy_ */
  EC_ROLE_RETURN, /* stands for a result, which is another argument already */
  EC_ROLES
} ec_role;

typedef struct ec_arg_row {
  uint32_t value;
  uint8_t role;     /* an ec_role */
  const char *name; /* of the operator's schema; NULL where there is none */
} ec_arg_row;

/* Where in a user's model an instruction comes from, if the exporter was asked to write it. */
typedef struct ec_frame_row {
  const char *file, *function, *context; /* NULL where absent */
  int32_t line;
} ec_frame_row;

typedef struct ec_instr_row {
  uint8_t type;         /* EC_PTE_KERNEL_CALL, ... */
  bool available;       /* KernelCall: there is a kernel */
  const char *name;     /* KernelCall: of the operator; DelegateCall: of the backend; else NULL */
  int32_t delegate;     /* DelegateCall: its index; else -1 */
  int32_t destination;  /* JumpFalseCall: number of an instruction; else -1 */
  ec_arg_row *args;
  size_t arg_count;
  ec_frame_row *frames;
  size_t frame_count;
} ec_instr_row;

typedef struct ec_chain_row {
  ec_instr_row *instrs;
  size_t count;
} ec_chain_row;

typedef struct ec_delegate_row {
  const char *id;
  bool in_segment;    /* else inside the program's tables */
  uint32_t index;     /* of the segment, or of the table */
  ec_bytes payload;
  int64_t at;         /* of the payload in the file */
  const ec_backend_spec *specs;
  size_t spec_count;
} ec_delegate_row;

/* Strings and bytes live as long as the program. */
typedef struct ec_structure {
  const char *name;
  ec_value_row *values;
  uint32_t *inputs, *outputs; /* indices of values */
  ec_delegate_row *delegates;
  ec_chain_row *chains;
  int64_t *arenas; /* bytes of planned memory 1, 2, ... */
  const ec_op **ops; /* by index in the file; NULL: there is no kernel */
  size_t value_count, input_count, output_count, delegate_count, chain_count, arena_count, op_count;
  ec_arena arena;
} ec_structure;

/* Errors: InvalidProgram, NotSupported, those of loading the method. */
ec_status ec_structure_init(const ec_program *program, size_t method, ec_structure *out,
                            ec_error *err);
void ec_structure_deinit(ec_structure *structure);

/* Has a delegate's backend tell what is in the payload. `*told` is false where the backend is not
 * there or cannot tell. */
ec_status ec_structure_visit(const ec_program *program, const ec_structure *structure,
                             size_t delegate, const ec_backend_visitor *visitor, bool *told,
                             ec_error *err);

#endif
