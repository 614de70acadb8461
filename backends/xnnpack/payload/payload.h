/* The delegate's bytes, verified, with the locations of its FlatBuffer and its constants. */
#ifndef ECX_PAYLOAD_PAYLOAD_H
#define ECX_PAYLOAD_PAYLOAD_H

#include "call.h"
#include "format/fb.h"
#include "payload/schema.h"

/* Bytes of a payload, of the program's named data, or a copy of either. */
typedef struct ecx_data {
  const void *at; /* NULL: no data */
  size_t size;
  const char *key; /* identifies it in the program; NULL: it is in the payload */
  void *copy;      /* owns the memory of `at` if it was copied */
  bool is_of_program; /* bytes that live as long as the program, unless they were copied */
  size_t room;        /* bytes that can be read at `at`, if more than `size` are known to be */
} ecx_data;

/* A payload with a verified FlatBuffer. */
typedef struct ecx_payload {
  ec_fb_table root;
  const uint8_t *constants; /* after the FlatBuffer; NULL: a bare FlatBuffer */
  size_t constants_size;
  const ecx_data *memory; /* constants in memory, by index: of a draft; or NULL */
  uint32_t memory_count;
} ecx_payload;

uint32_t ecx_payload_open(const ecx_call *c, const void *data, size_t size, ecx_payload *out);

/* Returns the table of a node's parameters, by the type byte of the node; NULL: unknown. */
const ec_fb_schema *ecx_node_schema(uint8_t type);

/* Returns the table Graph of tables.def, for fuzzers that change numbers and vectors of a
 * payload. */
const ec_fb_schema *ecx_payload_schema(void);

#endif
