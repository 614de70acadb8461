/* Operators of payloads that become several calls. */
#ifndef ECN_SPECIAL_H
#define ECN_SPECIAL_H

#include "../graph.h"

/* A node with one result. */
typedef struct ecn_step {
  ect_graph *g;
  const int64_t *args; /* values, in the order of torch's schema */
  size_t count;
  int64_t out;         /* a tensor */
  const ec_backend_node *shown;
} ecn_step;

typedef uint32_t ecn_special(const ecn_step *s);

ecn_special ecn_call_matmul, ecn_call_attention;

#endif
