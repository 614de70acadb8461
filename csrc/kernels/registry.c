/* The rows of ops.def with their parsed schemas. Registered operators are in custom.c. */
#include <stdlib.h>
#include <string.h>

#include "core/small.h"
#include "kernels/schema.h"

/* A selective build has fewer rows (`executorch-c selective`). */
#ifndef EC_OPS_DEF
#define EC_OPS_DEF "kernels/ops.def"
#endif

/* The prototypes of all rows: a kernel with another signature does not compile. */
#define EC_OP(fn, schema, dtypes, family, numbers, terms, loop) ec_status fn(struct ec_call *call);
#include EC_OPS_DEF
#undef EC_OP

/* A row of ops.def whose family has no row in families.def does not compile. */
enum {
#define EC_FAMILY(folder, work) WORK_##folder = EC_OP_##work,
#include "kernels/families.def"
#undef EC_FAMILY
};

typedef struct op_row {
  ec_kernel_fn fn;
  const char *schema, *family;
  ec_dtype_set dtypes;
  uint8_t work, numbers, loop;
  const char *terms;
} op_row;

static const op_row rows[] = {
#define EC_OP(fn, schema, dtypes, family, numbers, terms, loop)                               \
  {fn, schema, #family, EC_SET_##dtypes, WORK_##family, EC_NUMBERS_##numbers, EC_LOOP_##loop, \
   EC_IS_SMALL ? NULL : #terms},
#include EC_OPS_DEF
#undef EC_OP
};

enum {
  ROWS = sizeof rows / sizeof rows[0],
  NAMES = 0
#define EC_OP(fn, schema, dtypes, family, numbers, terms, loop) + sizeof(schema)
#include EC_OPS_DEF
#undef EC_OP
};

static ec_op ops[ROWS];
static char names[NAMES];

ec_status ec_ops_init(ec_error *err) {
  char *at = names;
  if (ops[ROWS - 1].family) return EC_OK;
  for (size_t i = 0; i < ROWS; i++) {
    ec_op *op = &ops[i];
    if (ec_schema_parse(rows[i].schema, at, op, err) != EC_OK)
      return ec_fail_in(err, EC_INTERNAL, "ops.def, '%s'", rows[i].schema);
    at += strlen(rows[i].schema) + 1;
    op->fn = rows[i].fn;
    op->dtypes = rows[i].dtypes;
    op->origin = "builtin";
    op->makes_view = strcmp(op->name, "executorch_prim::et_view.default") == 0;
    op->family = rows[i].family;
    op->work = (ec_op_work)rows[i].work;
    op->numbers = rows[i].numbers;
    op->terms = rows[i].terms;
    op->loop = rows[i].loop;
    if (i && strcmp(ops[i - 1].name, op->name) >= 0)
      return ec_fail(err, EC_INTERNAL, "ops.def: '%s' is not sorted", op->name);
  }
  return EC_OK;
}

size_t ec_op_count(void) { return ROWS; }

const ec_op *ec_op_at(size_t index) { return &ops[index]; }

static int compare_name(const void *name, const void *op) {
  return strcmp(name, ((const ec_op *)op)->name);
}

const ec_op *ec_op_find(const char *name) {
  return bsearch(name, ops, ROWS, sizeof ops[0], compare_name);
}
