/* The bytes of a payload: a FlatBuffer NPTG with one method. */
#ifndef ECN_PAYLOAD_H
#define ECN_PAYLOAD_H

#include "../graph.h"
#include "format/fb.h"

/* The schema of the FlatBuffer. */
const ec_fb_schema *ecn_payload_schema(void);

/* Verifies the payload, and fills an empty graph. */
uint32_t ecn_read_payload(ect_graph *g, const ec_backend_init *what);
/* A function of ect_format. */
void ecn_note_bounds(const ect_graph *g, const ect_operand *o, ect_note *note);

#endif
