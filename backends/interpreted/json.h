/* JSON: tokens in the order of the text, which may be written backwards. */
#ifndef ECT_JSON_H
#define ECT_JSON_H

#include "names.h"

typedef enum ect_json_type {
  ECT_JSON_OBJECT,
  ECT_JSON_ARRAY,
  ECT_JSON_TEXT,
  ECT_JSON_OTHER
} ect_json_type;

/* Members of an object are tokens of a key and a value in turn. */
typedef struct ect_token {
  uint8_t type;
  uint32_t next;     /* the token after this one and its contents */
  size_t begin, end; /* of the text; of a string without its quotes */
} ect_token;

typedef struct ect_json {
  ec_backend_call c;
  ect_text bytes;
  bool backwards;
  const char *what; /* in messages */
  ect_token *tokens;
  size_t count, room, at;
} ect_json;

/* Reads one value. The bytes after it are not read. The caller frees, after failures too. */
uint32_t ect_json_open(const ec_backend_call *c, ect_text bytes, bool backwards, const char *what,
                       ect_json *out);
void ect_json_free(ect_json *j);
/* Returns the value of a member, or 0, which is never one. */
uint32_t ect_json_member(const ect_json *j, uint32_t object, const char *name);
/* Returns the next token among the contents of `parent`, 0 after the last. */
uint32_t ect_json_first(const ect_json *j, uint32_t parent);
uint32_t ect_json_next(const ect_json *j, uint32_t parent, uint32_t token);
bool ect_json_equals(const ect_json *j, uint32_t token, const char *text);
/* Decodes the escapes of strings, in a copy of a text that is not written backwards. The caller
 * frees the copy, after failures too. */
uint32_t ect_json_decode(ect_json *j, uint8_t **copy);
/* Reads a string as it is after ect_json_decode. Returns false for other tokens. */
bool ect_json_text(const ect_json *j, uint32_t token, ect_text *out);
/* Reads a number that is not negative; token 0 is none. */
bool ect_json_number(const ect_json *j, uint32_t token, uint64_t *out);

#endif
