/* The payload as a graph. */
#ifndef ECM_READ_H
#define ECM_READ_H

#include "../graph.h"

/* Reads the function that the delegate calls into an empty graph. */
uint32_t ecm_read_payload(ect_graph *g, const ec_backend_init *what);
/* A function of ect_format. */
void ecm_note_stored(const ect_graph *g, const ect_operand *o, ect_note *note);

#endif
