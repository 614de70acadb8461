/* Numbers by name. */
#ifndef ECT_NAMES_H
#define ECT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "executorch_c/backend.h"

/* Bytes of a payload, without a NUL. */
typedef struct ect_text {
  const uint8_t *data;
  size_t size;
} ect_text;

/* Returns a C string, or "" for NULL. */
static inline ect_text ect_text_of(const char *text) {
  return (ect_text){(const uint8_t *)(text ? text : ""), text ? strlen(text) : 0};
}
static inline bool ect_text_equal(ect_text a, ect_text b) {
  return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}
static inline bool ect_text_is(ect_text text, const char *expected) {
  return ect_text_equal(text, ect_text_of(expected));
}

/* The arguments of "%.*s" that show at most `most` bytes of a text. */
#define ECT_CLIP(text, most)                                                                       \
  (int)((text).size < (most) ? (text).size : (most)), (const char *)(text).data

typedef struct ect_name {
  ect_text name; /* data NULL: free */
  uint32_t number;
} ect_name;

typedef struct ect_names {
  const ec_host *host;
  ect_name *rows;
  size_t room, count;
} ect_names;

/* Adds a name, or gives it another number. Returns false without memory. */
bool ect_names_set(ect_names *names, ect_text name, uint32_t number);
/* Returns UINT32_MAX if there is no such name. */
uint32_t ect_names_find(const ect_names *names, ect_text name);
void ect_names_free(ect_names *names);

#endif
