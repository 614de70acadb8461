/* Dtypes of payloads. */
#include "dtypes.h"

typedef struct dtype_row {
  const char *text;
  int32_t scalar_type;
  uint32_t bits;
} dtype_row;

static const dtype_row dtypes[ETS_DTYPES] = {
#define ETS_DTYPE(number, name, text, scalar_type, bits) [number] = {text, scalar_type, bits},
#include "dtypes.def"
#undef ETS_DTYPE
};

static const char *const ops[ETS_OPERATORS] = {
#define ETS_OP(number, name, ...) [number] = #name,
#include "operators.def"
};

void ets_name_node(ect_node *n) {
  n->op = ect_text_of(ops[n->kind]);
  n->shown = n->kind == ETS_CONST || n->kind == ETS_CONST_SHAPE ? NULL : ops[n->kind];
}

int32_t ets_scalar_type(uint32_t number) {
  return number < ETS_DTYPES && dtypes[number].text ? dtypes[number].scalar_type : -1;
}

/* Integers of 8 and 16 bits are quantised numbers, whose scales no payload has. */
static const char *describe(uint32_t number) {
  if (number == ETS_INT8) return "qint8";
  if (number == ETS_INT16) return "qint16";
  return number < ETS_DTYPES && dtypes[number].text ? dtypes[number].text : "unknown";
}

void ets_set_dtype(ect_operand *o, uint32_t number) {
  o->kind = number == ETS_SHAPE ? ECT_INT_LIST : ECT_TENSOR;
  o->dtype = number;
  o->dtype_name = describe(number);
  o->scalar_type = ets_scalar_type(number);
  o->stored_bits = number < ETS_DTYPES ? dtypes[number].bits : 0;
}
