/* Writes a program as a .pte in memory. */
#ifndef ECT_PTE_H
#define ECT_PTE_H

#include "format/fb_write.h"
#include "values.h"

/* Writes a program with one method, "forward". Constants and the initial values of state are copied
 * into segments. Returns an EC_BACKEND_* status; the caller frees out->data. */
uint32_t ect_write_pte(ec_host_call *call, ect_program *p, ec_fb_writer *out);

#endif
