/* A node that becomes several calls. */
#ifndef ECN_STEP_H
#define ECN_STEP_H

#include "../graph.h"

/* A node with one result. */
typedef struct ecn_step {
  ect_graph *g;
  const int64_t *args; /* values, in the order of torch's schema */
  size_t count;
  int64_t out;         /* a tensor */
  const ec_backend_node *shown;
} ecn_step;

#endif
