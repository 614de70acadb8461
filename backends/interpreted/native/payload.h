/* The bytes of graphs: a FlatBuffer NPTG. */
#ifndef ECN_PAYLOAD_H
#define ECN_PAYLOAD_H

#include "../graph.h"
#include "format/fb.h"

/* The schema of the FlatBuffer. */
const ec_fb_schema *ecn_payload_schema(void);

/* Verifies a FlatBuffer, which messages call `what`. Returns its methods. */
uint32_t ecn_verify(const ec_backend_call *c, const uint8_t *data, size_t size, const char *what,
                    ec_fb_vec *methods);
/* Returns the name of a method, with a NUL; "": it has none. */
ect_text ecn_method_name(ec_fb_table method);
/* Adds the keys of the constants that a method mutates. */
uint32_t ecn_find_mutated(const ec_backend_call *c, ec_fb_table method, ect_names *mutated);

/* Verifies the payload of a delegate, and fills an empty graph with its one method. */
uint32_t ecn_read_payload(ect_graph *g, const ec_backend_init *what);

#endif
