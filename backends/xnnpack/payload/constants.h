/* Constants of a payload. */
#ifndef ECX_PAYLOAD_CONSTANTS_H
#define ECX_PAYLOAD_CONSTANTS_H

#include "call.h"
#include "payload/payload.h"

/* Finds the data of constant `index` of the payload, readable XNN_EXTRA_BYTES beyond its end and
 * aligned to 16 bytes. `what` is for messages. */
uint32_t ecx_constant(const ecx_call *c, const ecx_payload *payload, uint32_t index,
                      const char *what, ecx_data *out);

/* The same for bytes of the FlatBuffer. */
uint32_t ecx_constant_inline(const ecx_call *c, const void *at, size_t size, ecx_data *out);

/* True if the XNN_EXTRA_BYTES after [at, at + size) reach another page that may not be readable. */
bool ecx_ends_unreadable(const ecx_call *c, const void *at, size_t size);

void ecx_data_close(const ec_host *host, ecx_data *data);

/* Converts bfloat16 or float16 values to float32. */
uint32_t ecx_widen(const ecx_call *c, ecx_data *data, bool is_float16);

/* Converts rows of 4-bit integers with zero point 8, the lower half of a byte first, to int8. */
uint32_t ecx_widen_halves(const ecx_call *c, ecx_data *data, size_t rows, size_t columns);

#endif
