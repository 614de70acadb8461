/* The parser of operator schemas: one pass, no recursion. */
#include "kernels/schema.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct type_row {
  const char *text;
  ec_arg_type type;
} type_row;

static const type_row types[] = {
    {"Tensor", EC_ARG_TENSOR}, {"SymInt", EC_ARG_INT},       {"int", EC_ARG_INT},
    {"ScalarType", EC_ARG_INT}, {"MemoryFormat", EC_ARG_INT}, {"Layout", EC_ARG_INT},
    {"float", EC_ARG_DOUBLE},  {"bool", EC_ARG_BOOL},        {"str", EC_ARG_STRING},
    {"Scalar", EC_ARG_SCALAR},  {"Generator", EC_ARG_INT}, /* always None */
    {"SymBool", EC_ARG_BOOL},
};
static const char type_names[] =
    "Tensor, int, SymInt, float, bool, SymBool, str, Scalar, ScalarType, MemoryFormat, Layout, "
    "Generator";

typedef struct parser {
  const char *text, *at;
  char *names; /* start of the next name */
  ec_error *err;
} parser;

EC_PRINTF(2, 3) static ec_status fail(parser *p, const char *fmt, ...) {
  char what[EC_ERROR_SIZE / 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  return ec_fail(p->err, EC_INVALID_ARGUMENT, "schema, character %zu (%s%.24s%s): %s",
                 (size_t)(p->at - p->text) + 1, *p->at ? "'" : "the end", p->at, *p->at ? "'" : "",
                 what);
}

static bool is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t name_length(const char *s) {
  size_t n = 0;
  if (is_name_start(*s))
    while (is_name(s[n])) n++;
  return n;
}

static void skip_spaces(parser *p) {
  while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n') p->at++;
}

static bool accept_token(parser *p, const char *text) {
  size_t n = strlen(text);
  if (strncmp(p->at, text, n) != 0) return false;
  p->at += n;
  return true;
}

/* Copies the next n characters as a separate string. */
static const char *copy_text(parser *p, size_t n) {
  char *name = p->names;
  memcpy(name, p->at, n);
  name[n] = '\0';
  p->names += n + 1;
  p->at += n;
  return name;
}

/* ---- arguments --------------------------------------------------------------------------- */

/* "(a!)" */
static ec_status parse_alias(parser *p, ec_arg_spec *arg) {
  if (*p->at != '(') return EC_OK;
  parser start = *p;
  p->at++;
  size_t n = name_length(p->at);
  p->at += n;
  arg->written = accept_token(p, "!");
  if (n == 0 || !accept_token(p, ")")) return fail(&start, "expected an alias such as (a!)");
  return EC_OK;
}

/* "?", "[]", "[2]", "[]?", "?[]" */
static ec_status parse_suffix(parser *p, ec_arg_spec *arg) {
  bool optional = accept_token(p, "?");
  if (*p->at == '[') {
    parser start = *p;
    p->at++;
    while (isdigit((unsigned char)*p->at)) p->at++;
    if (!accept_token(p, "]")) return fail(&start, "expected [] or [number]");
    arg->is_list = true;
    arg->item_optional = optional;
    optional = accept_token(p, "?");
  }
  arg->optional = optional;
  return EC_OK;
}

static ec_status parse_type(parser *p, ec_arg_spec *arg) {
  size_t n = name_length(p->at);
  const type_row *row = NULL;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strlen(types[i].text) == n && !strncmp(types[i].text, p->at, n)) row = &types[i];
  if (!n) return fail(p, "expected a type");
  if (!row)
    return fail(p, "type '%.*s' is not supported; types are %s", (int)(n < 40 ? n : 40), p->at,
                type_names);
  *arg = (ec_arg_spec){.type = (uint8_t)row->type, .is_dtype = !strcmp(row->text, "ScalarType")};
  p->at += n;
  EC_TRY(parse_alias(p, arg));
  return parse_suffix(p, arg);
}

/* Skips "=1", "=[0, 1]", "=\"mean\"": programs store every argument. */
static ec_status parse_default(parser *p) {
  int depth = 0;
  skip_spaces(p);
  if (!accept_token(p, "=")) return EC_OK;
  skip_spaces(p);
  parser start = *p;
  for (; *p->at; p->at++) {
    char c = *p->at;
    if (depth == 0 && (c == ',' || c == ')')) break;
    if (c == '"' || c == '\'') {
      const char *end = strchr(p->at + 1, c);
      if (!end) return fail(p, "the string is not terminated");
      p->at = end;
    } else {
      depth += (c == '[') - (c == ']');
      if (depth < 0 || c == '(') return fail(p, "unexpected character in a default value");
    }
  }
  return p->at == start.at || depth ? fail(&start, "expected a default value") : EC_OK;
}

static ec_status parse_arg(parser *p, ec_op *op, bool keyword) {
  if (op->nargs == EC_MAX_OP_ARGS)
    return fail(p, "more than %d arguments are not supported", EC_MAX_OP_ARGS);
  ec_arg_spec *arg = &op->args[op->nargs];
  EC_TRY(parse_type(p, arg));
  skip_spaces(p);
  size_t n = name_length(p->at);
  if (!n) return fail(p, "expected an argument name");
  for (size_t i = 0; i < op->nargs; i++)
    if (strlen(op->args[i].name) == n && !strncmp(op->args[i].name, p->at, n))
      return fail(p, "two arguments are named '%s'", op->args[i].name);
  arg->name = copy_text(p, n);
  arg->keyword = keyword;
  arg->is_out = keyword && arg->written;
  op->nargs++;
  return parse_default(p);
}

static ec_status parse_args(parser *p, ec_op *op) {
  bool keyword = false;
  skip_spaces(p);
  if (accept_token(p, ")")) return EC_OK;
  for (;;) {
    skip_spaces(p);
    if (*p->at == '*') {
      if (keyword) return fail(p, "a second '*'");
      keyword = true;
      p->at++;
    } else {
      EC_TRY(parse_arg(p, op, keyword));
    }
    skip_spaces(p);
    if (accept_token(p, ")")) return EC_OK;
    if (!accept_token(p, ",")) return fail(p, "expected ',' or ')'");
  }
}

/* ---- the rest ---------------------------------------------------------------------------- */

static ec_status parse_return(parser *p, ec_op *op, bool *scalar) {
  ec_arg_spec type;
  EC_TRY(parse_type(p, &type));
  skip_spaces(p);
  p->at += name_length(p->at);
  op->returns++;
  op->returned_outs += type.written;
  *scalar = type.type != EC_ARG_TENSOR;
  return EC_OK;
}

static ec_status parse_returns(parser *p, ec_op *op) {
  bool scalar;
  skip_spaces(p);
  if (!accept_token(p, "->")) return fail(p, "expected '->'");
  skip_spaces(p);
  if (!accept_token(p, "(")) return parse_return(p, op, &op->returns_scalar);
  skip_spaces(p);
  if (accept_token(p, ")")) return EC_OK;
  for (;;) {
    skip_spaces(p);
    EC_TRY(parse_return(p, op, &scalar));
    skip_spaces(p);
    if (accept_token(p, ")")) return EC_OK;
    if (!accept_token(p, ",")) return fail(p, "expected ',' or ')'");
  }
}

/* "ns::name.overload(" */
static ec_status parse_name(parser *p, ec_op *op) {
  const char *s = p->at;
  size_t n = name_length(s), part = 0;
  while (n && s[n] == ':' && s[n + 1] == ':' && (part = name_length(s + n + 2)) != 0)
    n += 2 + part;
  if (n && s[n] == '.' && (part = name_length(s + n + 1)) != 0) n += 1 + part;
  if (!n || !part || s[n] != '(') {
    p->at += n;
    return fail(p, "expected a name such as ns::name.out, then '('");
  }
  if (n > EC_MAX_OP_NAME)
    return fail(p, "the name has %zu characters, at most %d are supported", n, EC_MAX_OP_NAME);
  op->name = copy_text(p, n);
  p->at++;
  return EC_OK;
}

ec_status ec_schema_parse(const char *schema, char *names, ec_op *op, ec_error *err) {
  parser p = {schema, schema, names, err};
  *op = (ec_op){.schema = schema};
  if (strnlen(schema, EC_MAX_SCHEMA + 1) > EC_MAX_SCHEMA)
    return ec_fail(err, EC_INVALID_ARGUMENT, "schema: more than %d characters", EC_MAX_SCHEMA);
  skip_spaces(&p);
  EC_TRY(parse_name(&p, op));
  EC_TRY(parse_args(&p, op));
  EC_TRY(parse_returns(&p, op));
  skip_spaces(&p);
  return *p.at ? fail(&p, "unexpected text after the schema") : EC_OK;
}

ec_status ec_schema_check_custom(const ec_op *op, ec_error *err) {
  size_t outs = 0;
  for (size_t i = 0; i < op->nargs; i++) {
    const ec_arg_spec *arg = &op->args[i];
    bool tensor = arg->type == EC_ARG_TENSOR;
    if ((arg->is_list && (arg->type == EC_ARG_STRING || arg->type == EC_ARG_SCALAR)) ||
        (arg->item_optional && !tensor))
      return ec_fail(err, EC_INVALID_ARGUMENT,
                     "schema of %s: argument '%s' has a list type that programs cannot store",
                     op->name, arg->name);
    if (arg->written && (!tensor || arg->optional || arg->item_optional))
      return ec_fail(err, EC_INVALID_ARGUMENT,
                     "schema of %s: argument '%s' is written, so it must be a Tensor", op->name,
                     arg->name);
    outs += arg->is_out;
  }
  if (!strstr(op->name, "::"))
    return ec_fail(err, EC_INVALID_ARGUMENT, "schema of %s: the name has no namespace ('ns::%s')",
                   op->name, op->name);
  if (!outs)
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "schema of %s: not an out variant, as programs need: its results must be "
                   "keyword-only arguments at the end, '*, Tensor(a!) out) -> Tensor(a!)'",
                   op->name);
  if (op->returns && (op->returns != outs || op->returned_outs != outs))
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "schema of %s: it must return its %zu out argument%s, or ()", op->name, outs,
                   outs == 1 ? "" : "s");
  return EC_OK;
}
