/* The FlatBuffer of a payload, verified, as a graph. */
#ifndef EMX_READER_H
#define EMX_READER_H

#include "../graph.h"

/* Functions of ect_format. */
uint32_t emx_read(ect_graph *g, const ec_backend_init *what);
void emx_note(const ect_graph *g, const ect_operand *o, ect_note *note);

#endif
