/* Rows of the file: values of an ExecutionPlan (see decode.h). */
#ifndef EC_RUNTIME_LOAD_DECODE_VALUES_H
#define EC_RUNTIME_LOAD_DECODE_VALUES_H

#include "core/value.h"
#include "runtime/load/decode.h"

typedef struct ec_tensor_info {
  const char *name;       /* fully qualified name; NULL if the file has none */
  ec_dtype dtype;
  size_t rank;
  int64_t sizes[EC_MAX_RANK]; /* upper bounds if dynamic */
  uint8_t dim_order[EC_MAX_RANK];
  ec_dynamism dynamism;
  bool is_memory_planned;
  uint8_t device;         /* type; 0: CPU */
  uint32_t buffer;        /* data_buffer_idx; 0: no bytes in the file */
  size_t nbytes;
} ec_tensor_info;

typedef struct ec_value_info {
  ec_kind kind;
  ec_tensor_info tensor; /* if kind is EC_KIND_TENSOR */
  ec_scalar scalar;      /* of a number: the traced value */
  const char *string;    /* of a string: the traced value */
} ec_value_info;

/* The location of a value's data. */
typedef enum ec_location {
  EC_LOCATION_NONE,     /* no location: not a tensor, or allocated at execution */
  EC_LOCATION_PLANNED,  /* planned memory */
  EC_LOCATION_STATE,    /* planned memory with initial contents from the file */
  EC_LOCATION_CONSTANT, /* the file */
  EC_LOCATION_EXTERNAL, /* named data, by the tensor's name */
  EC_LOCATIONS
} ec_location;

typedef struct ec_value_row {
  ec_value_info info;
  uint8_t location;    /* an ec_location */
  bool external;       /* the bytes are named data, which may be missing: ec_tensor_bytes */
  uint32_t arena;      /* 1-based; 0: none */
  uint64_t offset;     /* in the arena */
  ec_bytes bytes;      /* in the file: a constant, or the initial value of state */
  int64_t file_offset; /* of `bytes`; -1: none */
  ec_fb_vec items;     /* of a list */
} ec_value_row;

/* True for a tensor, of any value of a plan. */
static inline bool ec_value_is_tensor(ec_fb_table value) {
  return ec_fb_u8(value, EC_PTE_EValue_val_type) == EC_PTE_TENSOR;
}

/* Decodes a value without its memory and list items, for descriptions. */
ec_status ec_decode_value_info(ec_fb_table value, ec_value_info *info, ec_error *err);
/* Decodes value `index` of a plan. */
ec_status ec_decode_value(const ec_rows *rows, uint32_t index, ec_value_row *row, ec_error *err);

/* Returns item `i` of a list: the index of a value (-1: None) of an IntList or a list of
 * tensors. */
static inline int64_t ec_row_item(const ec_value_row *row, uint32_t i) {
  return row->info.kind == EC_KIND_INT_LIST ? ec_fb_vec_i64(row->items, i)
                                            : ec_fb_vec_i32(row->items, i);
}

/* Finds the initial bytes of a row's tensor, named data included; {NULL, 0} if there are none. */
ec_status ec_tensor_bytes(const ec_program *program, const ec_value_row *row, ec_bytes *out,
                          ec_error *err);

#endif
