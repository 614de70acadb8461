/* The translation of a payload: values of its MIL program as values of a program. */
#ifndef ECM_MODEL_H
#define ECM_MODEL_H

#include "../values.h"
#include "directory.h"
#include "../names.h"
#include "wire.h"

/* MIL.DataType */
typedef enum ecm_dtype {
#define ECM_DTYPE(number, name, text, scalar_type, bits) ECM_##name = (number),
#include "dtypes.def"
#undef ECM_DTYPE
  ECM_DTYPES = 40
} ecm_dtype;

enum { ECM_NAME_BYTES = 128 };

typedef struct ecm_value {
  int64_t id;      /* in the program; ECT_NO_VALUE: a constant that no call has used */
  int32_t mil; /* an ecm_dtype, or an unknown one */
  ect_tensor type; /* its dtype is -1 if the runtime has none */
  uint32_t unknown; /* dimensions without a size in the type */
  ecm_bytes data;  /* of a constant: elements, or the text of a string */
  bool is_constant, is_state;
} ecm_value;

typedef struct ecm_model {
  ec_backend_call c;
  ecm_files files;
  ect_program program;
  ect_names names, handles; /* numbers of values, debug handles of results */
  ecm_value *values;
  size_t value_count, value_room;
  int64_t bound; /* of unknown dimensions; -1: none is stated */
  char function[ECM_NAME_BYTES];
} ecm_model;

/* Opens the directory: the payload, or named data that it refers to. */
uint32_t ecm_model_open(void *graph, const ec_backend_call *c, const ec_backend_init *what);
void ecm_model_close(void *graph);

/* Returns memory until the model is closed; NULL without memory. */
void *ecm_own(ecm_model *m, size_t size);
const char *ecm_dtype_name(int32_t mil);
uint32_t ecm_read_type(ecm_model *m, ecm_bytes value_type, ecm_value *out);
/* Reads a Value message, a constant. */
uint32_t ecm_read_constant(ecm_model *m, ecm_bytes message, ecm_value *out);
/* Returns item i of a stream of at most 8 bits each, the lowest first. */
unsigned ecm_bits_at(ecm_bytes bytes, size_t i, unsigned bits);
/* Gives a value of a state type its memory, which begins as zeros. */
uint32_t ecm_add_state(ecm_model *m, ecm_value *v);
uint32_t ecm_define(ecm_model *m, ecm_bytes name, const ecm_value *value);
size_t ecm_elements(const ecm_value *v); /* of a constant: bounded by its bytes */
/* Returns the number in the program of a value that is a tensor. */
uint32_t ecm_tensor(ecm_model *m, ecm_value *v, int64_t *out);

#endif
