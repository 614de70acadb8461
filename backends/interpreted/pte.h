/* Writes a program as a .pte in memory. */
#ifndef ECT_PTE_H
#define ECT_PTE_H

#include "format/fb_write.h"
#include "values.h"

/* A method of a .pte. */
typedef struct ect_method {
  const char *name;
  ect_program *program;
} ect_method;

/* Writes a program. Constants and the initial values of state are copied into a segment, unless
 * they are external. Returns an EC_BACKEND_* status; the caller frees out->data. */
uint32_t ect_write_pte(ec_host_call *call, const ect_method *methods, size_t count,
                       ec_fb_writer *out);

#endif
