/* The files of a payload, and values of its MIL program as operands. */
#ifndef ECM_MODEL_H
#define ECM_MODEL_H

#include "../graph.h"
#include "directory.h"
#include "wire.h"

/* MIL.DataType */
typedef enum ecm_dtype {
#define ECM_DTYPE(number, name, text, scalar_type, bits) ECM_##name = (number),
#include "dtypes.def"
#undef ECM_DTYPE
  ECM_DTYPES = 40
} ecm_dtype;

enum { ECM_NAME_BYTES = 128 };

/* A payload that is being read. */
typedef struct ecm_model {
  ect_graph *g;
  ecm_files files;
  ect_names names, handles; /* operands, debug handles of results */
  int64_t bound; /* of unknown dimensions; -1: none is stated */
  char function[ECM_NAME_BYTES];
} ecm_model;

/* Opens the directory: the payload, or named data that it refers to. The caller closes, after
 * failures too. */
uint32_t ecm_model_open(ecm_model *m, ect_text payload);
void ecm_model_close(ecm_model *m);

const char *ecm_dtype_name(uint32_t mil);
/* Reads a ValueType; what it lacks is a fault. */
ect_operand ecm_read_type(ecm_model *m, ect_text value_type);
/* Reads a Value message, a constant. */
ect_operand ecm_read_constant(ecm_model *m, ect_text message);

#endif
