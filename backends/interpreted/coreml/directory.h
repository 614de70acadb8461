/* The directory of a payload: files, and an index at the end. */
#ifndef ECM_DIRECTORY_H
#define ECM_DIRECTORY_H

#include "../names.h"

typedef struct ecm_files {
  ect_text model, weights, metadata, handles; /* data NULL: none */
} ecm_files;

/* Finds the files that the translation needs; weights and handles are optional. */
uint32_t ecm_directory_open(const ec_backend_call *c, ect_text payload, ecm_files *out);

#endif
