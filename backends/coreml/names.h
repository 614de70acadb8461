/* Numbers by name. */
#ifndef ECM_NAMES_H
#define ECM_NAMES_H

#include "host.h"

typedef struct ecm_name {
  ecm_bytes name; /* data NULL: free */
  uint32_t number;
} ecm_name;

typedef struct ecm_names {
  const ec_host *host;
  ecm_name *rows;
  size_t room, count;
} ecm_names;

/* Adds a name, or gives it another number. Returns false without memory. */
bool ecm_names_set(ecm_names *names, ecm_bytes name, uint32_t number);
/* Returns UINT32_MAX if there is no such name. */
uint32_t ecm_names_find(const ecm_names *names, ecm_bytes name);
void ecm_names_free(ecm_names *names);

#endif
