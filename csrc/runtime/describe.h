/* Descriptions of programs and methods (sizes, inputs, counts) without loading a method. */
#ifndef EC_RUNTIME_DESCRIBE_H
#define EC_RUNTIME_DESCRIBE_H

#include "runtime/load/decode_values.h"

typedef struct ec_op_use {
  const char *name;  /* "aten::add.out" */
  size_t calls;      /* instructions that use it */
  bool available;    /* has a kernel in this runtime */
} ec_op_use;

typedef struct ec_delegate_use {
  const char *id;    /* of the backend */
  size_t payload;    /* bytes */
  size_t calls;
  bool registered, available;
  const char *lacks; /* what a backend that is not available needs; NULL: unknown, or nothing */
  const char *engine; /* the backend's version, for display; NULL: unknown */
} ec_delegate_use;

/* One method. Strings live as long as the program. */
typedef struct ec_method_info {
  const char *name;
  ec_value_info *inputs, *outputs;
  size_t input_count, output_count;
  ec_tensor_info *attributes; /* named tensors that can be read and set */
  size_t attribute_count;
  int64_t *arenas; /* bytes of each planned buffer */
  uint8_t *arena_devices; /* the type of the device that each is on */
  size_t arena_count;
  ec_op_use *operators;
  size_t operator_count;
  ec_delegate_use *delegates;
  size_t delegate_count;
  size_t value_count, instruction_count, chain_count;
  uint64_t constant_bytes; /* of constant tensors */
  uint8_t device; /* the type of one that planned memory or a tensor is on; 0: the CPU only */
  const char *encoded_inputs, *encoded_outputs; /* pytree specs (JSON); NULL if absent */
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
