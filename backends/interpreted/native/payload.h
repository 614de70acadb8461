/* The bytes of a payload: a FlatBuffer NPTG with one method. */
#ifndef ECN_PAYLOAD_H
#define ECN_PAYLOAD_H

#include "../names.h"
#include "../values.h"
#include "executorch_c/backend.h"
#include "format/fb.h"

typedef struct ecn_payload {
  ec_fb_table method; /* verified */
  ec_fb_vec nodes, inputs, outputs, tensors, constants, specs, buffers;
} ecn_payload;

/* The schema of the FlatBuffer. */
const ec_fb_schema *ecn_payload_schema(void);

uint32_t ecn_payload_open(const ec_backend_call *c, const void *data, size_t size,
                          ecn_payload *out);

/* Sets the nodes, inputs, outputs and tensors to those of a graph. */
void ecn_read_graph(ec_fb_table graph, ecn_payload *out);
/* The operator of a node, as traces show it: "aten.relu_.default". */
const char *ecn_operator_name(ec_fb_table node);

/* A string of a table; empty if it is absent. */
ect_text ecn_text(ec_fb_table table, unsigned id);
ect_text ecn_text_at(ec_fb_vec strings, uint32_t index);
bool ecn_text_is(ect_text text, const char *expected);

/* The c10::ScalarType of a payload's ScalarType. */
int32_t ecn_scalar_type(uint8_t dtype);
/* Reads a TensorMeta; `what` names the tensor. Sizes are upper bounds. */
uint32_t ecn_read_meta(const ec_backend_call *c, ec_fb_table meta, ect_text what, ect_tensor *out);

#endif
