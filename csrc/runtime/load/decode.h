/* Rows of the file: an instruction or a delegate of an ExecutionPlan as a plain struct (a value:
 * decode_values.h). Rows are read through the verified accessors and checked as far as the plan
 * alone allows: kinds, dtypes, indices in range, extents in planned memory. Loading, inspecting and
 * describing read a plan only through this header. A row refers to the file and allocates
 * nothing. */
#ifndef EC_RUNTIME_LOAD_DECODE_H
#define EC_RUNTIME_LOAD_DECODE_H

#include "core/arena.h"
#include "executorch_c/backend.h"
#include "runtime/program.h"

/* One method of the file. */
typedef struct ec_rows {
  const ec_program *program;
  ec_fb_table table;
  ec_fb_vec values, operators, delegates, chains;
  ec_fb_vec inputs, outputs; /* indices of values */
  ec_fb_vec memory;          /* sizes of planned memory; entry 0 is reserved */
  uint32_t arena_count;      /* planned memories without the reserved entry */
} ec_rows;

void ec_rows_init(ec_rows *rows, const ec_program *program, size_t method);

/* ---- planned memory, inputs and outputs, operators --------------------------------------- */

/* Returns the size of planned memory `id`, below rows->memory.count. InvalidProgram if it is
 * negative. */
ec_status ec_decode_memory(const ec_rows *rows, uint32_t id, size_t *size, ec_error *err);

/* Returns the name of a device type: "CPU", "CUDA", "a device of an unknown type". */
const char *ec_device_name(uint8_t type);
/* Fails for memory of a device; the format says whose. */
ec_status ec_fail_device(ec_error *err, uint8_t type, const char *fmt, ...) EC_PRINTF(3, 4);

/* Returns item `index` of rows->inputs or rows->outputs; `what` is "input" or "output". */
ec_status ec_decode_io(const ec_rows *rows, ec_fb_vec indices, uint32_t index, const char *what,
                       uint32_t *value, ec_error *err);

enum { EC_OP_NAME_BYTES = 256 };

/* Writes the joined name of an operator ("aten::add.out") to `name`. Returns NULL if the index is
 * out of range, or the row has no name or too long a name. */
const char *ec_decode_op_name(const ec_rows *rows, int32_t index, char name[EC_OP_NAME_BYTES]);
/* Copies the joined name of an operator to an arena. InvalidProgram without a usable name. */
ec_status ec_copy_op_name(const ec_rows *rows, uint32_t index, ec_arena *arena, const char **out,
                          ec_error *err);

/* ---- instructions ------------------------------------------------------------------------ */

typedef enum ec_instr_kind {
#define EC_INSTR(name, handler) EC_INSTR_##name,
#include "runtime/instr.def"
#undef EC_INSTR
  EC_INSTR_KINDS
} ec_instr_kind;

typedef struct ec_instr_row {
  uint8_t kind;        /* an ec_instr_kind */
  int32_t op;          /* KernelCall: index of the operator; else -1 */
  int32_t delegate;    /* DelegateCall: its index; else -1 */
  int32_t destination; /* JumpFalseCall: number of an instruction; else -1 */
  size_t arg_count;
  ec_fb_vec args;   /* KernelCall, DelegateCall: indices of values */
  int32_t slots[2]; /* other instructions: move: from, to; jump, free: one value */
} ec_instr_row;

/* Returns the instructions of a chain; items NULL if they are missing. */
static inline ec_fb_vec ec_decode_chain(const ec_rows *rows, uint32_t index) {
  return ec_fb_vector(ec_fb_vec_table(rows->chains, index), EC_PTE_Chain_instructions);
}

/* Decodes an instruction of one of rows->chains. Every argument is the index of a value. */
ec_status ec_decode_instr(const ec_rows *rows, ec_fb_table instr, ec_instr_row *row, ec_error *err);

static inline uint32_t ec_row_arg(const ec_instr_row *row, size_t i) {
  return (uint32_t)(row->args.items ? ec_fb_vec_i32(row->args, (uint32_t)i) : row->slots[i]);
}

/* ---- delegates --------------------------------------------------------------------------- */

typedef struct ec_delegate_row {
  const char *id;
  ec_fb_table processed; /* refers to the payload; NULL: none */
  bool in_segment;       /* false: inside the program's tables */
  uint32_t index;        /* of the segment, or of the table */
  ec_bytes payload;
  int64_t file_offset;   /* of the payload */
  const ec_backend_spec *specs;
  size_t spec_count;
} ec_delegate_row;

/* Decodes delegate `index` of a plan, without its compile specs. */
ec_status ec_decode_payload(const ec_rows *rows, uint32_t index, ec_delegate_row *row,
                            ec_error *err);
/* Decodes delegate `index` with its compile specs, which are allocated in an arena. */
ec_status ec_decode_delegate(const ec_rows *rows, uint32_t index, ec_arena *arena,
                             ec_delegate_row *row, ec_error *err);

#endif
