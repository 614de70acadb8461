/* The program that a payload is translated into: its values, constants and calls.
 *
 * Values and constants are numbers, calls are in order of execution. Functions that add something
 * return its number; without memory they set `failed`, and the number means nothing. */
#ifndef ECT_VALUES_H
#define ECT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executorch_c/backend.h"

enum { ECT_MAX_RANK = 16, ECT_NO_VALUE = -1 };

/* The union types of a .pte's values. */
typedef enum ect_kind {
  ECT_NONE = 1,
  ECT_INT,
  ECT_BOOL,
  ECT_DOUBLE,
  ECT_TENSOR,
  ECT_STRING,
  ECT_INT_LIST,
  ECT_DOUBLE_LIST,
  ECT_BOOL_LIST,
  ECT_TENSOR_LIST,
  ECT_OPTIONAL_TENSOR_LIST
} ect_kind;

typedef enum ect_role {
  ECT_COMPUTED, /* an input, or the result of a call */
  ECT_CONSTANT,
  ECT_STATE     /* keeps its value between calls; begins as a constant */
} ect_role;

typedef struct ect_tensor {
  int32_t dtype; /* c10::ScalarType */
  uint32_t rank;
  int64_t sizes[ECT_MAX_RANK]; /* upper bounds if is_dynamic; -1: unknown */
  bool is_dynamic;
  uint32_t varying;  /* bits of dimensions whose sizes may vary, of formats that know them */
  uint8_t role;      /* an ect_role */
  uint32_t constant; /* of ECT_CONSTANT and ECT_STATE */
  uint64_t place;    /* of ECT_STATE, if the program's `state_size` is set */
} ect_tensor;

/* A value. Items of lists are in ect_program.items: numbers of values; doubles as bits; bools. */
typedef struct ect_value {
  uint8_t kind; /* an ect_kind */
  union {
    int64_t i;
    double d;
    bool b;
    struct {
      const char *text;
      size_t size;
    } string;
    struct {
      size_t first, count;
    } list;
    size_t tensor; /* in ect_program.tensors */
  } as;
} ect_value;

/* Bytes that outlive the writing of the program. */
typedef struct ect_constant {
  const void *data;
  size_t size;
  const char *key; /* of external data, which the .pte only names; NULL: the .pte holds it */
} ect_constant;

typedef struct ect_call {
  uint32_t op;
  size_t first, count; /* arguments, in ect_program.items; of a jump: its condition */
  bool is_jump;
  bool is_copy; /* a helper that copies a tensor to its last argument */
  uint32_t target;     /* of a jump: a number of a call */
  ec_backend_node node; /* of the payload; name NULL: a helper */
} ect_call;

typedef struct ect_program {
  const ec_host *host;
  ect_value *values;
  ect_tensor *tensors;
  ect_constant *constants;
  int64_t *items;
  ect_call *calls;
  char (*ops)[256]; /* "aten::add.out" */
  void **owned; /* constants that are not bytes of the payload */
  int64_t *inputs, *outputs; /* numbers of values */
  bool *is_number; /* by input: an int64 tensor of rank 0 that takes a number or one element */
  int32_t *narrowed; /* by output: its dtype, where that lacks numbers of the graph's; else -1 */
  size_t value_count, tensor_count, constant_count, item_count, call_count, op_count, owned_count,
      input_count, output_count;
  size_t value_room, tensor_room, constant_room, item_room, call_room, op_room, owned_room,
      input_room, number_room, output_room, narrowed_room;
  uint64_t state_size; /* of the memory that methods share; 0: the plan places state */
  bool failed;
} ect_program;

void ect_free(ect_program *p);
/* Returns memory until ect_free, zeroed; NULL without memory. */
void *ect_own(ect_program *p, size_t size);

int64_t ect_add_none(ect_program *p);
int64_t ect_add_int(ect_program *p, int64_t number);
int64_t ect_add_double(ect_program *p, double number);
int64_t ect_add_bool(ect_program *p, bool truth);
/* The text must outlive the writing of the program. */
int64_t ect_add_string(ect_program *p, const char *text, size_t size);
int64_t ect_add_tensor(ect_program *p, const ect_tensor *tensor);
/* Adds a constant or state whose zeros the caller overwrites. Returns its bytes, at least one; NULL
 * without memory, or if they overflow. */
void *ect_add_owned(ect_program *p, const ect_tensor *type, ect_role role, int64_t *out);
/* Adds a computed tensor with the bounds of another and a dtype. */
int64_t ect_add_like(ect_program *p, const ect_tensor *like, int32_t dtype);
/* A list: numbers of values (ints and tensors; ECT_NO_VALUE: an absent one), bits of doubles, or
 * bools, as `kind` says. */
int64_t ect_add_list(ect_program *p, ect_kind kind, const int64_t *items, size_t count);
/* A list of ints from plain numbers. */
int64_t ect_add_ints(ect_program *p, const int64_t *numbers, size_t count);
uint32_t ect_add_constant(ect_program *p, const void *data, size_t size);
/* Adds an argument of the delegate. */
void ect_add_input(ect_program *p, int64_t value, bool is_number);
/* `narrowed`: see ect_program. */
void ect_add_output(ect_program *p, int64_t value, int32_t narrowed);
void ect_add_call(ect_program *p, const char *op, const int64_t *args, size_t count,
                  const ec_backend_node *node);

/* Adds a call that copies a tensor to another, converted to its dtype. */
void ect_add_copy(ect_program *p, int64_t from, int64_t to, const ec_backend_node *node);
/* Replaces outputs that are inputs, constants, state or earlier outputs, too, by copies. */
void ect_copy_shared(ect_program *p);

/* Adds a jump that is taken if `condition`, a number of a bool, is false. Returns its number, for
 * ect_set_target. */
size_t ect_add_jump(ect_program *p, int64_t condition);
/* Adds a jump that is always taken. */
size_t ect_add_leave(ect_program *p);
/* Sets the target of a jump to the next call that will be added, or the end. */
void ect_set_target(ect_program *p, size_t jump);
/* Adds a jump to `first`, an earlier call: a loop. A value from before it that a round reads is
 * kept until the last round; one that the loop itself computes is kept until its last reader in
 * the same round, so that a value for the next round has to be written before the loop, too. */
void ect_add_loop(ect_program *p, size_t first);

const ect_value *ect_value_at(const ect_program *p, int64_t value);
/* Returns NULL if the value is not a tensor. */
ect_tensor *ect_tensor_at(ect_program *p, int64_t value);
/* True if the tensor has sizes without bounds: its memory grows in calls. */
bool ect_is_unbounded(const ect_tensor *t);
/* Computes the bytes of a tensor; those without bounds are 0. Returns false if they overflow or the
 * dtype is unknown. */
bool ect_tensor_bytes(const ect_tensor *t, size_t *bytes);
#endif
