/* JSON of a payload: tokens in the order of the text, which may be written backwards. */
#ifndef ECM_JSON_H
#define ECM_JSON_H

#include "../names.h"

typedef enum ecm_json_type { ECM_OBJECT, ECM_ARRAY, ECM_TEXT, ECM_OTHER } ecm_json_type;

/* Members of an object are tokens of a key and a value in turn. */
typedef struct ecm_token {
  uint8_t type;
  uint32_t next;     /* the token after this one and its contents */
  size_t begin, end; /* of the text; of a string without its quotes */
} ecm_token;

typedef struct ecm_json {
  ec_backend_call c;
  ect_text bytes;
  bool backwards;
  const char *what; /* in messages */
  ecm_token *tokens;
  size_t count, room, at;
} ecm_json;

/* Reads one value. The bytes after it are not read. The caller frees, after failures too. */
uint32_t ecm_json_open(const ec_backend_call *c, ect_text bytes, bool backwards, const char *what,
                       ecm_json *out);
void ecm_json_free(ecm_json *j);
/* Returns the value of a member, or 0, which is never one. */
uint32_t ecm_json_member(const ecm_json *j, uint32_t object, const char *name);
/* Returns the next token among the contents of `parent`, 0 after the last. */
uint32_t ecm_json_first(const ecm_json *j, uint32_t parent);
uint32_t ecm_json_next(const ecm_json *j, uint32_t parent, uint32_t token);
bool ecm_json_equals(const ecm_json *j, uint32_t token, const char *text);
/* Reads a number that is not negative. */
bool ecm_json_number(const ecm_json *j, uint32_t token, uint64_t *out);

#endif
