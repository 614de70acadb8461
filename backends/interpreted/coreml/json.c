/* A reader of JSON without copies: escapes in strings stay as they are. */
#include "json.h"

#include <string.h>

#include "../grow.h"

enum { DEEPEST = 16 };

static int byte_at(const ecm_json *j, size_t i) {
  if (i >= j->bytes.size) return -1;
  return j->bytes.data[j->backwards ? j->bytes.size - 1 - i : i];
}

static uint32_t fail_at(const ecm_json *j, const char *expected) {
  return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM,
                         "payload: %s is not JSON: byte %zu%s is not %s", j->what, j->at,
                         j->backwards ? " from the end" : "", expected);
}

static void skip_space(ecm_json *j) {
  for (int b; b = byte_at(j, j->at), b == ' ' || b == '\n' || b == '\r' || b == '\t';) j->at++;
}

static uint32_t add_token(ecm_json *j, ecm_json_type type, size_t *index) {
  ecm_token *moved = j->count < UINT32_MAX / 2
                         ? ect_grow(j->c.host, j->tokens, &j->room, j->count, sizeof *moved)
                         : NULL;
  if (!moved)
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %s", j->what);
  j->tokens = moved;
  *index = j->count++;
  j->tokens[*index] = (ecm_token){.type = (uint8_t)type, .begin = j->at};
  return EC_BACKEND_OK;
}

static void end_token(ecm_json *j, size_t index, size_t end) {
  j->tokens[index].end = end;
  j->tokens[index].next = (uint32_t)j->count;
}

static uint32_t read_text(ecm_json *j) {
  size_t index = 0;
  if (byte_at(j, j->at) != '"') return fail_at(j, "a string");
  j->at++;
  EC_BACKEND_TRY(add_token(j, ECM_TEXT, &index));
  for (int b; b = byte_at(j, j->at), b != '"'; j->at++) {
    if (b < 0) return fail_at(j, "the end of a string");
    j->at += b == '\\';
  }
  end_token(j, index, j->at++);
  return EC_BACKEND_OK;
}

/* A number, true, false or null. */
static uint32_t read_word(ecm_json *j) {
  static const char letters[] = "+-.0123456789Eaeflnrstu";
  size_t index = 0;
  EC_BACKEND_TRY(add_token(j, ECM_OTHER, &index));
  const size_t begin = j->at;
  for (int b; b = byte_at(j, j->at), b > 0 && strchr(letters, b);) j->at++;
  if (j->at == begin) return fail_at(j, "a value");
  end_token(j, index, j->at);
  return EC_BACKEND_OK;
}

static uint32_t read_value(ecm_json *j, unsigned depth);

static uint32_t read_member(ecm_json *j, bool is_object, unsigned depth) {
  skip_space(j);
  if (!is_object) return read_value(j, depth);
  EC_BACKEND_TRY(read_text(j));
  skip_space(j);
  if (byte_at(j, j->at) != ':') return fail_at(j, "':'");
  j->at++;
  return read_value(j, depth);
}

static uint32_t read_members(ecm_json *j, bool is_object, unsigned depth) {
  const int close = is_object ? '}' : ']';
  size_t index = 0;
  if (depth == DEEPEST) return fail_at(j, "at most 16 deep");
  EC_BACKEND_TRY(add_token(j, is_object ? ECM_OBJECT : ECM_ARRAY, &index));
  j->at++;
  skip_space(j);
  while (byte_at(j, j->at) != close) {
    EC_BACKEND_TRY(read_member(j, is_object, depth + 1));
    skip_space(j);
    if (byte_at(j, j->at) == close) break;
    if (byte_at(j, j->at) != ',') return fail_at(j, "',' or a closing bracket");
    j->at++;
    skip_space(j);
    if (byte_at(j, j->at) == close) return fail_at(j, "a value");
  }
  end_token(j, index, ++j->at);
  return EC_BACKEND_OK;
}

static uint32_t read_value(ecm_json *j, unsigned depth) {
  skip_space(j);
  const int b = byte_at(j, j->at);
  if (b == '{' || b == '[') return read_members(j, b == '{', depth);
  return b == '"' ? read_text(j) : read_word(j);
}

uint32_t ecm_json_open(const ec_backend_call *c, ect_text bytes, bool backwards, const char *what,
                       ecm_json *out) {
  *out = (ecm_json){.c = *c, .bytes = bytes, .backwards = backwards, .what = what};
  return read_value(out, 0);
}

void ecm_json_free(ecm_json *j) {
  if (j->c.host) j->c.host->free(j->tokens);
  *j = (ecm_json){0};
}

uint32_t ecm_json_first(const ecm_json *j, uint32_t parent) {
  return j->tokens[parent].type <= ECM_ARRAY ? ecm_json_next(j, parent, parent) : 0;
}

uint32_t ecm_json_next(const ecm_json *j, uint32_t parent, uint32_t token) {
  const uint32_t next = token == parent ? parent + 1 : j->tokens[token].next;
  return next < j->tokens[parent].next ? next : 0;
}

bool ecm_json_equals(const ecm_json *j, uint32_t token, const char *text) {
  const ecm_token *t = &j->tokens[token];
  const size_t size = strlen(text);
  if (t->end - t->begin != size) return false;
  for (size_t i = 0; i < size; i++)
    if (byte_at(j, t->begin + i) != (uint8_t)text[i]) return false;
  return true;
}

uint32_t ecm_json_member(const ecm_json *j, uint32_t object, const char *name) {
  if (j->tokens[object].type != ECM_OBJECT) return 0;
  for (uint32_t key = ecm_json_first(j, object); key;) {
    const uint32_t value = j->tokens[key].next;
    if (ecm_json_equals(j, key, name)) return value;
    key = ecm_json_next(j, object, value);
  }
  return 0;
}

bool ecm_json_number(const ecm_json *j, uint32_t token, uint64_t *out) {
  const ecm_token *t = &j->tokens[token];
  if (!token || t->begin == t->end) return false;
  *out = 0;
  for (size_t i = t->begin; i < t->end; i++) {
    const int digit = byte_at(j, i) - '0';
    if (digit < 0 || digit > 9 || __builtin_mul_overflow(*out, 10u, out) ||
        __builtin_add_overflow(*out, (uint64_t)digit, out))
      return false;
  }
  return true;
}
