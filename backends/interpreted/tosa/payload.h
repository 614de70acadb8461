/* The payload of TOSABackend: a FlatBuffer with the identifier TOSA. */
#ifndef ETS_PAYLOAD_H
#define ETS_PAYLOAD_H

#include "format/fb.h"
#include "dtypes.h"

/* The attributes of an operator; NULL: TOSA has no such operator. */
const ec_fb_schema *ets_attributes(uint32_t op);

/* The schema of the FlatBuffer. */
const ec_fb_schema *ets_payload_schema(void);

/* Verifies the payload and appends its blocks to an empty graph. */
uint32_t ets_read_payload(ect_graph *g, const ec_backend_init *what);

#endif
