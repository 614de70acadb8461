/* The operator table: ops.def, with each schema parsed once. */
#include <stdlib.h>
#include <string.h>

#include "kernels/op.h"

/* Every row's prototype: a kernel with another signature does not compile. */
#define EC_OP(fn, schema, dtypes, family) ec_status fn(struct ec_call *call);
#include "kernels/ops.def"
#undef EC_OP

typedef struct op_row {
  ec_kernel_fn fn;
  const char *schema, *family;
  ec_dtype_set dtypes;
} op_row;

static const op_row rows[] = {
#define EC_OP(fn, schema, dtypes, family) {fn, schema, #family, EC_SET_##dtypes},
#include "kernels/ops.def"
#undef EC_OP
};

enum { ROWS = sizeof rows / sizeof rows[0], NAME_BYTES = 64 };

static ec_op ops[ROWS];
static char names[ROWS][NAME_BYTES];

typedef struct type_row {
  const char *text;
  ec_arg_type type;
} type_row;

static const type_row types[] = {
    {"Tensor", EC_ARG_TENSOR},   {"SymInt", EC_ARG_INT},     {"int", EC_ARG_INT},
    {"ScalarType", EC_ARG_INT},  {"MemoryFormat", EC_ARG_INT}, {"float", EC_ARG_DOUBLE},
    {"bool", EC_ARG_BOOL},       {"str", EC_ARG_STRING},     {"Scalar", EC_ARG_SCALAR},
};

static const char *skip(const char *s, const char *chars) { return s + strspn(s, chars); }

/* "Tensor(a!)?[2] name=default" up to ',' or ')'. Returns what follows, NULL when it is no type. */
static const char *parse_arg(const char *s, ec_arg_spec *arg) {
  size_t word = strcspn(s, "([? ,)");
  const type_row *row = NULL;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strlen(types[i].text) == word && !strncmp(types[i].text, s, word)) row = &types[i];
  if (!row) return NULL;
  *arg = (ec_arg_spec){.type = (uint8_t)row->type};
  s += word;
  if (*s == '(') { /* alias annotation */
    const char *end = strchr(s, ')');
    if (!end) return NULL;
    arg->written = memchr(s, '!', (size_t)(end - s)) != NULL;
    s = end + 1;
  }
  for (; *s == '[' || *s == '?'; s++)
    if (*s == '[') {
      arg->is_list = true;
      arg->item_optional = arg->optional;
      arg->optional = false;
      s = strchr(s, ']');
      if (!s) return NULL;
    } else {
      arg->optional = true;
    }
  s = skip(s, " ");
  size_t n = strcspn(s, "=,)");
  if (n == 0 || n >= EC_ARG_NAME) return NULL;
  memcpy(arg->name, s, n);
  s += n;
  if (*s == '=') { /* a default may hold brackets and quotes, never a parenthesis */
    int depth = 0;
    for (s++; *s && (depth || (*s != ',' && *s != ')')); s++)
      depth += (*s == '[') - (*s == ']');
  }
  return s;
}

static ec_status parse_row(const op_row *row, ec_op *op, char *name, ec_error *err) {
  *op = (ec_op){.schema = row->schema, .family = row->family, .fn = row->fn, .dtypes = row->dtypes};
  const char *s = strchr(row->schema, '(');
  if (!s || s - row->schema >= NAME_BYTES)
    return ec_fail(err, EC_INTERNAL, "ops.def: '%s' has no name", row->schema);
  memcpy(name, row->schema, (size_t)(s - row->schema));
  op->name = name;
  for (s++; *s && *s != ')';) {
    s = skip(s, ", ");
    if (*s == '*') {
      s++;
      continue;
    }
    if (op->nargs == EC_MAX_OP_ARGS || !(s = parse_arg(s, &op->args[op->nargs])))
      return ec_fail(err, EC_INTERNAL, "ops.def: argument %zu of '%s' is not understood", op->nargs,
                     row->schema);
    op->nargs++;
  }
  const char *arrow = strstr(s, "-> ");
  if (!arrow) return ec_fail(err, EC_INTERNAL, "ops.def: '%s' has no result", row->schema);
  op->makes_view = strcmp(name, "executorch_prim::et_view.default") == 0;
  op->returns_scalar = strncmp(arrow + 3, "Tensor", 6) != 0 && arrow[3] != '(';
  return EC_OK;
}

ec_status ec_ops_init(ec_error *err) {
  if (ROWS && ops[ROWS - 1].name) return EC_OK;
  for (size_t i = 0; i < ROWS; i++) {
    EC_TRY(parse_row(&rows[i], &ops[i], names[i], err));
    if (i && strcmp(ops[i - 1].name, ops[i].name) >= 0)
      return ec_fail(err, EC_INTERNAL, "ops.def: '%s' is not sorted", ops[i].name);
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
