/* The bytes of a payload: header, FlatBuffer VK00, constants after it or in named data. */
#ifndef ECV_PAYLOAD_H
#define ECV_PAYLOAD_H

#include "executorch_c/backend.h"
#include "format/fb.h"

typedef struct ecv_payload {
  ec_fb_table graph; /* verified */
  ec_fb_vec chain, values, inputs, outputs, constants;
  const uint8_t *bytes; /* of constants */
  size_t bytes_size;
} ecv_payload;

/* The schema of the FlatBuffer. */
const ec_fb_schema *ecv_payload_schema(void);

uint32_t ecv_payload_open(const ec_backend_call *c, const void *data, size_t size,
                          ecv_payload *out);
/* Finds the bytes of constant `id`. */
uint32_t ecv_payload_constant(const ec_backend_call *c, const ecv_payload *p, uint32_t id,
                              const void **data, size_t *size);

/* The type of a value, and its table; 0 for an id that no value has, or a value without one. */
uint8_t ecv_value_type(const ecv_payload *p, int64_t id);
ec_fb_table ecv_value_table(const ecv_payload *p, int64_t id);
/* The c10::ScalarType of a VkDataType; -1: none. */
int32_t ecv_scalar_type(uint8_t datatype);

#endif
