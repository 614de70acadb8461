/* The contents of a payload, for `inspect` and `explain`. */
#ifndef ETS_DESCRIBE_H
#define ETS_DESCRIBE_H

#include "graph.h"

void ets_describe(const ets_graph *g, const ec_backend_visitor *visitor);

#endif
