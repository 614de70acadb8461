/* A second compiled model of a delegate, whose inner values are results, too. */
#ifndef ECO_SHOWN_H
#define ECO_SHOWN_H

#include "engine.h"
#include "graph.h"

typedef struct eco_shown {
  eco_blob blob;
  eco_graph graph;
  eco_model *model; /* NULL: no inner value has a name */
  eco_request *request;
  uint32_t *outputs; /* by value: the output of the second model; UINT32_MAX: none. The first ones
                      * are those of the delegate's own model. */
} eco_shown;

/* Compiles the second model once, at the first call that shows values. *out is NULL for a payload
 * of an unknown format, and for a model with state, of which a second one would have its own. */
uint32_t eco_shown_open(const ec_backend_call *c, eco_delegate *d, const eco_shown **out);
void eco_shown_close(const ec_host *host, eco_delegate *d);

#endif
