/* A bounded reader of the demo payload. The text comes from a file: it is untrusted and not
 * NUL-terminated. */
#include "payload.h"

#include <string.h>

enum { VERSION = 0 };

typedef struct reader {
  const ec_host *host;
  ec_host_call *call;
  const char *begin, *at, *end;
} reader;

/* Indexed by demo_kind. */
static const char *const names[] = {"aten.add.Tensor", "aten.mm.default", "aten.sin.default"};
static const size_t operands[] = {2, 2, 1};

const char *demo_kind_name(demo_kind kind) {
  return names[kind];
}

static uint32_t fail_unexpected(const reader *r, const char *expected) {
  return r->host->fail(r->call, EC_BACKEND_INVALID_PROGRAM,
                       "payload byte %zu: expected %s, found '%.*s'", (size_t)(r->at - r->begin),
                       expected, (int)(r->end - r->at < 16 ? r->end - r->at : 16), r->at);
}

static bool skip_text(reader *r, const char *text) {
  size_t size = strlen(text);
  if ((size_t)(r->end - r->at) < size || memcmp(r->at, text, size) != 0) return false;
  r->at += size;
  return true;
}

/* Parses a decimal number of up to 18 digits, which always fits. */
static bool parse_number(reader *r, int64_t *out) {
  bool negative = skip_text(r, "-");
  const char *first = r->at;
  int64_t value = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - first < 18; r->at++)
    value = value * 10 + (*r->at - '0');
  *out = negative ? -value : value;
  return r->at > first && !(r->at < r->end && *r->at >= '0' && *r->at <= '9');
}

/* Parses the text up to `stop` and skips `stop`. */
static bool parse_word(reader *r, char stop, const char **text, size_t *size) {
  const char *delimiter = r->at < r->end ? memchr(r->at, stop, (size_t)(r->end - r->at)) : NULL;
  if (!delimiter) return false;
  *text = r->at;
  *size = (size_t)(delimiter - r->at);
  r->at = delimiter + 1;
  return true;
}

static bool text_equals(const char *text, size_t size, const char *other) {
  return size == strlen(other) && memcmp(text, other, size) == 0;
}

static uint32_t parse_op(reader *r, demo_op *op) {
  const char *name, *dtype;
  size_t name_size, dtype_size;
  if (!skip_text(r, "op:demo::") || !parse_word(r, ',', &name, &name_size))
    return fail_unexpected(r, "'op:demo::<operator>,'");
  if (!skip_text(r, " numel:") || !parse_number(r, &op->numel) || op->numel < 0)
    return fail_unexpected(r, "' numel:<count>'");
  if (!skip_text(r, ", dtype:") || !parse_word(r, '<', &dtype, &dtype_size))
    return fail_unexpected(r, "', dtype:<dtype><'");
  if (!skip_text(r, "debug_handle>") || !parse_number(r, &op->debug_handle) || !skip_text(r, "#"))
    return fail_unexpected(r, "'debug_handle><number>#'");
  size_t kind = 0;
  while (kind < sizeof names / sizeof *names && !text_equals(name, name_size, names[kind])) kind++;
  if (kind == sizeof names / sizeof *names)
    return r->host->fail(r->call, EC_BACKEND_NOT_SUPPORTED,
                         "operator '%.*s' (debug handle %lld) is not supported, expected "
                         "aten.add.Tensor, aten.mm.default or aten.sin.default",
                         (int)(name_size < 100 ? name_size : 100), name,
                         (long long)op->debug_handle);
  if (!text_equals(dtype, dtype_size, "torch.float32"))
    return r->host->fail(r->call, EC_BACKEND_NOT_SUPPORTED,
                         "%s (debug handle %lld) is compiled for %.*s, expected torch.float32",
                         names[kind], (long long)op->debug_handle,
                         (int)(dtype_size < 100 ? dtype_size : 100), dtype);
  op->kind = (demo_kind)kind;
  return EC_BACKEND_OK;
}

/* Parses the number of operators, the version, and the '#' after them. */
static uint32_t parse_head(reader *r, int64_t *count) {
  int64_t version = VERSION;
  if (!parse_number(r, count) || *count < 1) return fail_unexpected(r, "a number of operators");
  if (skip_text(r, "version:") && !parse_number(r, &version))
    return fail_unexpected(r, "a version");
  if (version != VERSION)
    return r->host->fail(r->call, EC_BACKEND_INCOMPATIBLE,
                         "the payload has version %lld, this backend reads version %d",
                         (long long)version, VERSION);
  return skip_text(r, "#") ? EC_BACKEND_OK : fail_unexpected(r, "'#'");
}

/* Determines the inputs of each operator, which the payload does not state, from the order alone.
 * The first operator reads the first inputs. Each later one reads the previous result and, if it is
 * an add, the next input. An mm that is not the first (left or right operand?) or a sin between
 * adds (of the result or of an input?) is ambiguous and refused. */
static uint32_t wire_operators(reader *r, demo_program *program) {
  program->inputs = operands[program->ops[0].kind];
  for (size_t i = 1; i < program->count; i++) {
    const demo_op *op = &program->ops[i];
    bool after_sin = i > 1 && program->ops[i - 1].kind == DEMO_SIN;
    if (op->kind == DEMO_MM || (op->kind == DEMO_ADD && after_sin))
      return r->host->fail(r->call, EC_BACKEND_NOT_SUPPORTED,
                           "the inputs of %s (operator %zu, debug handle %lld) are ambiguous: an "
                           "mm must come first, and a sin first or last",
                           names[op->kind], i, (long long)op->debug_handle);
    program->inputs += operands[op->kind] - 1;
  }
  return EC_BACKEND_OK;
}

uint32_t demo_payload_parse(const ec_host *host, ec_host_call *call, const ec_backend_init *init,
                            demo_program **out) {
  const char *text = init->payload ? init->payload : "";
  reader r = {host, call, text, text, text + (init->payload ? init->payload_size : 0)};
  int64_t count;
  uint32_t status = parse_head(&r, &count);
  if (status) return status;
  /* An operator takes more than 32 characters, so a larger count is false and must not be
   * allocated. */
  if (count > (r.end - r.at) / 32) return fail_unexpected(&r, "the stated number of operators");
  demo_program *program = host->alloc(sizeof *program + (size_t)count * sizeof *program->ops);
  if (!program)
    return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for %lld operators",
                      (long long)count);
  for (program->count = 0; program->count < (size_t)count && !status; program->count++)
    status = parse_op(&r, &program->ops[program->count]);
  if (!status && r.at != r.end) status = fail_unexpected(&r, "the end of the payload");
  if (!status) status = wire_operators(&r, program);
  if (status)
    host->free(program);
  else
    *out = program;
  return status;
}
