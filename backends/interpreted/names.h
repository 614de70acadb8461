/* Numbers by name. */
#ifndef ECT_NAMES_H
#define ECT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executorch_c/backend.h"

/* Bytes of a payload, without a NUL. */
typedef struct ect_text {
  const uint8_t *data;
  size_t size;
} ect_text;

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
