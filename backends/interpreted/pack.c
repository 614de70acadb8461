/* Schemas as texts of the host, and calls packed by them. */
#include "pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- schemas --------------------------------------------------------------------------------- */

/* Returns the end of a parameter: the comma or parenthesis outside of brackets. */
static char *find_end(char *at) {
  int depth = 0;
  bool quoted = false;
  for (; *at; at++) {
    if (*at == '"' || *at == '\'') quoted = !quoted;
    if (quoted) continue;
    if (*at == '(' || *at == '[') depth++;
    if (depth == 0 && (*at == ',' || *at == ')')) return at;
    if (*at == ')' || *at == ']') depth--;
  }
  return at;
}

/* Reads "Tensor(a!)[]? name=default", which ends with a NUL. */
static bool read_parameter(char *text, bool after_star, ect_parameter *out) {
  char *equals = strchr(text, '=');
  if (equals) *equals = '\0';
  char *space = strrchr(text, ' ');
  if (!space || strlen(space + 1) >= sizeof out->name) return false;
  *space = '\0';
  const size_t size = strlen(text);
  *out = (ect_parameter){
      .is_list = strchr(text, '[') != NULL && strchr(text, ']') != NULL,
      .is_optional = size && text[size - 1] == '?',
      .is_tensor = strncmp(text, "Tensor", 6) == 0,
      .is_double = strncmp(text, "float", 5) == 0,
      .is_out = after_star && strchr(text, '!') != NULL,
      .otherwise = equals && !strpbrk(equals + 1, "\"'") ? equals + 1 : NULL, /* no strings */
  };
  memcpy(out->name, space + 1, strlen(space + 1) + 1);
  return true;
}

static bool read_parameters(ect_schema *s) {
  char *at = strchr(s->text, '(');
  bool after_star = false;
  s->count = s->out_count = 0;
  if (!at) return false;
  for (at++; *at && *at != ')';) {
    char *end = find_end(at);
    const bool last = *end != ',';
    *end = '\0';
    while (*at == ' ') at++;
    if (strcmp(at, "*") == 0) after_star = true;
    else if (s->count == ECT_MAX_ARGS ||
             !read_parameter(at, after_star, &s->parameters[s->count]))
      return false;
    else s->out_count += s->parameters[s->count++].is_out;
    if (last) return true;
    at = end + 1;
  }
  return true;
}

uint32_t ect_schema_find(const ec_host *host, ec_host_call *call, const char *op,
                         ect_schema *out) {
  const bool lends =
      host->struct_size >= offsetof(ec_host, operator_schema) + sizeof host->operator_schema;
  const size_t size = lends ? host->operator_schema(op, out->text, sizeof out->text) : 0;
  if (!size)
    return host->fail(call, EC_BACKEND_NOT_FOUND, "the runtime has no operator %s", op);
  if (size >= sizeof out->text || !read_parameters(out))
    return host->fail(call, EC_BACKEND_INTERNAL, "the schema of %s is not understood", op);
  return EC_BACKEND_OK;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Adds the default of a parameter. */
static int64_t add_default(ect_program *p, const ect_parameter *parameter) {
  const char *text = parameter->otherwise;
  if (!text || strcmp(text, "None") == 0) return ect_add_none(p);
  if (strcmp(text, "[]") == 0)
    return ect_add_list(p, parameter->is_double ? ECT_DOUBLE_LIST : ECT_INT_LIST, NULL, 0);
  if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0)
    return ect_add_bool(p, *text == 'T');
  if (parameter->is_double || strchr(text, '.')) return ect_add_double(p, strtod(text, NULL));
  const int64_t number = strtoll(text, NULL, 10);
  return parameter->is_list ? ect_add_ints(p, &number, 1) : ect_add_int(p, number);
}

static bool is_number(const ect_program *p, int64_t value) {
  const uint8_t kind = p->values[value].kind;
  return kind == ECT_INT || kind == ECT_DOUBLE || kind == ECT_BOOL;
}

/* Returns why a value cannot be the argument of a parameter; NULL: it may be one. */
static const char *find_fault(const ect_program *p, const ect_parameter *parameter, int64_t value) {
  const ect_value *v = &p->values[value];
  if (v->kind == ECT_NONE) return parameter->is_optional ? NULL : "is None";
  const bool is_tensor = v->kind == ECT_TENSOR;
  if (parameter->is_tensor && !parameter->is_list && !is_tensor) return "is not a tensor";
  if (!parameter->is_tensor && is_tensor) return "is a tensor, expected a number";
  if (parameter->is_double && v->kind == ECT_STRING) return "is a string, expected a number";
  for (size_t i = 0; v->kind == ECT_INT_LIST && i < v->as.list.count; i++)
    if (p->values[p->items[v->as.list.first + i]].kind != ECT_INT)
      return "has an item that is not an int";
  return NULL;
}

static bool ends_with(const char *name, const char *end) {
  const size_t size = strlen(name), tail = strlen(end);
  return size >= tail && strcmp(name + size - tail, end) == 0;
}

/* True for the scale of a quantisation, which a zero point follows, that is not positive. */
static bool is_wrong_scale(const ect_program *p, const ect_schema *schema, size_t i,
                           int64_t value) {
  const ect_value *v = &p->values[value];
  if (v->kind != ECT_DOUBLE || i + 1 == schema->count) return false;
  return ends_with(schema->parameters[i].name, "scale") &&
         ends_with(schema->parameters[i + 1].name, "zero_point") &&
         !(v->as.d > 0 && isfinite(v->as.d));
}

/* Checks the arguments of a call that is about to be added. */
static uint32_t check_arguments(ec_host_call *call, const ect_program *p, const ect_schema *schema,
                                const int64_t *args, const char *what) {
  for (size_t i = 0; i < schema->count && !p->failed; i++) {
    const ect_parameter *parameter = &schema->parameters[i];
    const char *fault = parameter->is_out ? NULL : find_fault(p, parameter, args[i]);
    if (!fault && is_wrong_scale(p, schema, i, args[i])) fault = "is not a positive number";
    if (fault)
      return p->host->fail(call, EC_BACKEND_INVALID_PROGRAM, "%s: argument '%s' %s", what,
                           parameter->name, fault);
  }
  return EC_BACKEND_OK;
}

/* Returns the value in the kind of list that the parameter needs. */
static int64_t fit_list(ect_program *p, const ect_parameter *parameter, int64_t value) {
  const ect_value v = p->values[value];
  if (is_number(p, value) && !parameter->is_tensor && !parameter->is_double)
    return ect_add_list(p, ECT_INT_LIST, &value, 1);
  if (v.kind == ECT_INT_LIST && v.as.list.count == 0 && parameter->is_tensor)
    return ect_add_list(p, ECT_TENSOR_LIST, NULL, 0);
  if (v.kind == ECT_INT_LIST && v.as.list.count == 0 && parameter->is_double)
    return ect_add_list(p, ECT_DOUBLE_LIST, NULL, 0);
  return value;
}

static int64_t pack_argument(ect_program *p, const ect_parameter *parameter, int64_t value) {
  if (value == ECT_NO_VALUE) return add_default(p, parameter);
  if (parameter->is_list && !p->failed) return fit_list(p, parameter, value);
  return value;
}

uint32_t ect_pack_call(ec_host_call *call, ect_program *p, const char *op, const int64_t *values,
                       size_t value_count, const int64_t *outs, size_t out_count,
                       const ec_backend_node *node, const char *what) {
  ect_schema schema;
  int64_t args[ECT_MAX_ARGS];
  size_t in = 0, out = 0;
  const uint32_t status = ect_schema_find(p->host, call, op, &schema);
  if (status != EC_BACKEND_OK) return status;
  const size_t takes = schema.count - schema.out_count;
  if (value_count > takes || out_count != schema.out_count)
    return p->host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                         "%s has %zu arguments and %zu results, %s takes %zu and %zu", what,
                         value_count, out_count, op, takes, schema.out_count);
  for (size_t i = 0; i < schema.count; i++) {
    const ect_parameter *parameter = &schema.parameters[i];
    if (parameter->is_out) args[i] = outs[out++];
    else args[i] = pack_argument(p, parameter, in < value_count ? values[in] : ECT_NO_VALUE);
    in += !parameter->is_out;
    if (!parameter->is_out && in > value_count && !parameter->otherwise && !parameter->is_optional)
      return p->host->fail(call, EC_BACKEND_INVALID_PROGRAM, "%s has no argument '%s' of %s", what,
                           parameter->name, op);
  }
  const uint32_t checked = check_arguments(call, p, &schema, args, what);
  if (checked == EC_BACKEND_OK) ect_add_call(p, op, args, schema.count, node);
  return checked;
}
