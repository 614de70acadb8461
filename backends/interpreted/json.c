/* A reader of JSON without copies: escapes in strings stay as they are until they are decoded. */
#include "json.h"

#include <string.h>

#include "grow.h"

enum { DEEPEST = 16 };

static int byte_at(const ect_json *j, size_t i) {
  if (i >= j->bytes.size) return -1;
  return j->bytes.data[j->backwards ? j->bytes.size - 1 - i : i];
}

static uint32_t fail_at(const ect_json *j, const char *expected) {
  return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM,
                         "%s is not JSON: byte %zu%s is not %s", j->what, j->at,
                         j->backwards ? " from the end" : "", expected);
}

static void skip_space(ect_json *j) {
  for (int b; b = byte_at(j, j->at), b == ' ' || b == '\n' || b == '\r' || b == '\t';) j->at++;
}

static uint32_t add_token(ect_json *j, ect_json_type type, size_t *index) {
  ect_token *moved = j->count < UINT32_MAX / 2
                         ? ect_grow(j->c.host, j->tokens, &j->room, j->count, sizeof *moved)
                         : NULL;
  if (!moved)
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %s", j->what);
  j->tokens = moved;
  *index = j->count++;
  j->tokens[*index] = (ect_token){.type = (uint8_t)type, .begin = j->at};
  return EC_BACKEND_OK;
}

static void end_token(ect_json *j, size_t index, size_t end) {
  j->tokens[index].end = end;
  j->tokens[index].next = (uint32_t)j->count;
}

static uint32_t read_text(ect_json *j) {
  size_t index = 0;
  if (byte_at(j, j->at) != '"') return fail_at(j, "a string");
  j->at++;
  EC_BACKEND_TRY(add_token(j, ECT_JSON_TEXT, &index));
  for (int b; b = byte_at(j, j->at), b != '"'; j->at++) {
    if (b < 0) return fail_at(j, "the end of a string");
    j->at += b == '\\';
  }
  end_token(j, index, j->at++);
  return EC_BACKEND_OK;
}

/* A number, true, false or null. */
static uint32_t read_word(ect_json *j) {
  static const char letters[] = "+-.0123456789Eaeflnrstu";
  size_t index = 0;
  EC_BACKEND_TRY(add_token(j, ECT_JSON_OTHER, &index));
  const size_t begin = j->at;
  for (int b; b = byte_at(j, j->at), b > 0 && strchr(letters, b);) j->at++;
  if (j->at == begin) return fail_at(j, "a value");
  end_token(j, index, j->at);
  return EC_BACKEND_OK;
}

static uint32_t read_value(ect_json *j, unsigned depth);

static uint32_t read_member(ect_json *j, bool is_object, unsigned depth) {
  skip_space(j);
  if (!is_object) return read_value(j, depth);
  EC_BACKEND_TRY(read_text(j));
  skip_space(j);
  if (byte_at(j, j->at) != ':') return fail_at(j, "':'");
  j->at++;
  return read_value(j, depth);
}

static uint32_t read_members(ect_json *j, bool is_object, unsigned depth) {
  const int close = is_object ? '}' : ']';
  size_t index = 0;
  if (depth == DEEPEST) return fail_at(j, "at most 16 deep");
  EC_BACKEND_TRY(add_token(j, is_object ? ECT_JSON_OBJECT : ECT_JSON_ARRAY, &index));
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

static uint32_t read_value(ect_json *j, unsigned depth) {
  skip_space(j);
  const int b = byte_at(j, j->at);
  if (b == '{' || b == '[') return read_members(j, b == '{', depth);
  return b == '"' ? read_text(j) : read_word(j);
}

uint32_t ect_json_open(const ec_backend_call *c, ect_text bytes, bool backwards, const char *what,
                       ect_json *out) {
  *out = (ect_json){.c = *c, .bytes = bytes, .backwards = backwards, .what = what};
  return read_value(out, 0);
}

void ect_json_free(ect_json *j) {
  if (j->c.host) j->c.host->free(j->tokens);
  *j = (ect_json){0};
}

uint32_t ect_json_first(const ect_json *j, uint32_t parent) {
  return j->tokens[parent].type <= ECT_JSON_ARRAY ? ect_json_next(j, parent, parent) : 0;
}

uint32_t ect_json_next(const ect_json *j, uint32_t parent, uint32_t token) {
  const uint32_t next = token == parent ? parent + 1 : j->tokens[token].next;
  return next < j->tokens[parent].next ? next : 0;
}

bool ect_json_equals(const ect_json *j, uint32_t token, const char *text) {
  const ect_token *t = &j->tokens[token];
  const size_t size = strlen(text);
  if (t->end - t->begin != size) return false;
  for (size_t i = 0; i < size; i++)
    if (byte_at(j, t->begin + i) != (uint8_t)text[i]) return false;
  return true;
}

uint32_t ect_json_member(const ect_json *j, uint32_t object, const char *name) {
  if (j->tokens[object].type != ECT_JSON_OBJECT) return 0;
  for (uint32_t key = ect_json_first(j, object); key;) {
    const uint32_t value = j->tokens[key].next;
    if (ect_json_equals(j, key, name)) return value;
    key = ect_json_next(j, object, value);
  }
  return 0;
}

bool ect_json_number(const ect_json *j, uint32_t token, uint64_t *out) {
  const ect_token *t = &j->tokens[token];
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

/* ---- escapes --------------------------------------------------------------------------------- */

/* Reads the four digits of "\\u0041". Returns -1 if they are not there. */
static int32_t read_unit(const uint8_t *at, const uint8_t *end) {
  int32_t unit = 0;
  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  for (size_t i = 2; i < 6; i++) {
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *digit = at[i] ? strchr(digits, at[i]) : NULL;
    if (!digit) return -1;
    const int32_t value = (int32_t)(digit - digits);
    unit = unit * 16 + (value < 16 ? value : value - 6);
  }
  return unit;
}

/* Reads a code point, one or two units; moves `*at`. Returns -1 for half a pair. */
static int32_t read_point(const uint8_t **at, const uint8_t *end) {
  const int32_t high = read_unit(*at, end);
  *at += 6;
  if (high < 0xd800 || high > 0xdfff) return high;
  const int32_t low = read_unit(*at, end);
  *at += 6;
  if (high > 0xdbff || low < 0xdc00 || low > 0xdfff) return -1;
  return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static uint8_t *put_point(uint8_t *to, int32_t point) {
  const int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (uint8_t)(lead[more] | point >> 6 * more);
  for (int i = more; i-- > 0;) *to++ = (uint8_t)(0x80 | (point >> 6 * i & 0x3f));
  return to;
}

/* Decodes a string in place, which does not make it longer. Returns its end; NULL: an unknown
 * escape, or a NUL. */
static uint8_t *decode_text(uint8_t *text, const uint8_t *end) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  uint8_t *to = text;
  for (const uint8_t *at = text; at < end;) {
    if (*at != '\\') {
      *to++ = *at++;
      continue;
    }
    const char *name = end - at > 1 && at[1] ? strchr(names, at[1]) : NULL;
    const int32_t point = name ? values[name - names] : read_point(&at, end);
    if (point <= 0) return NULL;
    if (name) at += 2;
    to = put_point(to, point);
  }
  return to;
}

uint32_t ect_json_decode(ect_json *j, uint8_t **copy) {
  *copy = j->c.host->alloc(j->bytes.size + 1);
  if (!*copy)
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %s", j->what);
  if (j->bytes.size) memcpy(*copy, j->bytes.data, j->bytes.size);
  for (size_t i = 0; i < j->count; i++) {
    ect_token *t = &j->tokens[i];
    if (t->type != ECT_JSON_TEXT) continue;
    const uint8_t *end = decode_text(*copy + t->begin, *copy + t->end);
    j->at = t->begin;
    if (!end) return fail_at(j, "the begin of a string with known escapes");
    t->end = (size_t)(end - *copy);
  }
  j->bytes.data = *copy;
  return EC_BACKEND_OK;
}

bool ect_json_text(const ect_json *j, uint32_t token, ect_text *out) {
  const ect_token *t = &j->tokens[token];
  *out = (ect_text){j->bytes.data + t->begin, t->end - t->begin};
  return t->type == ECT_JSON_TEXT;
}
