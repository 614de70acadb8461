/* A call of the payload. */
#ifndef ECV_NODE_H
#define ECV_NODE_H

#include "payload.h"

typedef struct ecv_node {
  const char *name;
  uint32_t number; /* OperatorCall.node_id */
  ec_fb_vec args;  /* the last one is the result */
} ecv_node;

ecv_node ecv_node_at(const ecv_payload *p, uint32_t index);

#endif
