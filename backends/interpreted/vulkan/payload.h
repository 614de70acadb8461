/* The payload: header, FlatBuffer VK00, constants after it or in named data. */
#ifndef ECV_PAYLOAD_H
#define ECV_PAYLOAD_H

#include "../graph.h"
#include "format/fb.h"

/* The schema of the FlatBuffer. */
const ec_fb_schema *ecv_payload_schema(void);

/* Verifies the payload, and fills an empty graph. */
uint32_t ecv_read_payload(ect_graph *g, const ec_backend_init *what);
/* A function of ect_format. */
void ecv_note_storage(const ect_graph *g, const ect_operand *o, ect_note *note);

#endif
