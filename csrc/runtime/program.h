/* A program: an opened .pte with its named data, immutable and shared by any number of methods and
 * threads. What it holds can be described without loading a method. */
#ifndef EC_RUNTIME_PROGRAM_H
#define EC_RUNTIME_PROGRAM_H

#include "core/arena.h"
#include "core/value.h"
#include "format/pte.h"
#include "format/source.h"

typedef struct ec_program ec_program;

typedef struct ec_program_options {
  ec_verification verification;
  /* Planned memory with id 2 and above that holds only state is one per program, shared by its
   * methods: programs exported with MemoryPlanningPass(share_mutable_buffers=True) rely on it. */
  bool share_mutable_buffers;
} ec_program_options;

/* Opens a program. Takes `file` and the `data_count` sources of `data` (.ptd files), also on
 * failure. Errors: those of ec_pte_open, ec_ptd_open and ec_named_map_init. */
ec_status ec_program_open(const ec_program_options *options, ec_source *file, ec_source *data,
                          size_t data_count, ec_program **out, ec_error *err);

/* Frees a program; its methods must be freed before. NULL is allowed. */
void ec_program_free(ec_program *program);

size_t ec_program_method_count(const ec_program *program);
/* Borrowed; index below the count. */
const char *ec_program_method_name(const ec_program *program, size_t index);
/* NotFound lists the names that there are. */
ec_status ec_program_find_method(const ec_program *program, const char *name, size_t *index,
                                 ec_error *err);

/* ---- description ------------------------------------------------------------------------- */

typedef struct ec_tensor_info {
  const char *name;       /* fully qualified name; NULL where the file has none */
  ec_dtype dtype;
  size_t rank;
  int64_t sizes[EC_MAX_RANK]; /* upper bounds where dynamic */
  uint8_t dim_order[EC_MAX_RANK];
  ec_dynamism dynamism;
  bool is_memory_planned;
  size_t nbytes;
} ec_tensor_info;

typedef struct ec_value_info {
  ec_kind kind;
  ec_tensor_info tensor; /* where kind is EC_KIND_TENSOR */
  ec_scalar scalar;      /* where it is a number: the traced value */
  const char *string;    /* where it is a string: the traced value */
} ec_value_info;

typedef struct ec_op_use {
  const char *name;  /* "aten::add.out" */
  size_t calls;      /* instructions that use it */
  bool available;    /* has a kernel here */
} ec_op_use;

typedef struct ec_delegate_use {
  const char *id;    /* of the backend */
  size_t payload;    /* bytes */
  size_t calls;
  bool registered, available;
} ec_delegate_use;

/* One method. Strings live as long as the program. */
typedef struct ec_method_info {
  const char *name;
  ec_value_info *inputs, *outputs;
  size_t input_count, output_count;
  ec_tensor_info *attributes; /* named tensors that can be read and set */
  size_t attribute_count;
  int64_t *arenas; /* bytes of each planned buffer */
  size_t arena_count;
  ec_op_use *operators;
  size_t operator_count;
  ec_delegate_use *delegates;
  size_t delegate_count;
  size_t value_count, instruction_count, chain_count;
  uint64_t constant_bytes; /* of tensors that are constants of the program */
  const char *encoded_inputs, *encoded_outputs; /* pytree specs (JSON); NULL where absent */
  ec_arena arena; /* holds all of the above */
} ec_method_info;

/* Describes a method from the file alone. Errors: InvalidProgram. */
ec_status ec_program_describe(const ec_program *program, size_t index, ec_method_info *out,
                              ec_error *err);
void ec_method_info_deinit(ec_method_info *info);

typedef struct ec_segment_info {
  uint64_t offset, size; /* offset from the segment base */
} ec_segment_info;

typedef struct ec_named_info {
  const char *key;
  uint64_t size;
  int source; /* -1: the program; else index of the data file */
} ec_named_info;

typedef struct ec_program_info {
  uint64_t file_size, program_size, segment_base;
  uint32_t header_length, version;
  ec_segment_info *segments;
  size_t segment_count;
  ec_named_info *named;
  size_t named_count;
  ec_arena arena;
} ec_program_info;

ec_status ec_program_info_init(const ec_program *program, ec_program_info *out, ec_error *err);
void ec_program_info_deinit(ec_program_info *info);

#endif
