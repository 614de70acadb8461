/* Shape checks shared by several kinds of nodes. */
#include "nodes/shapes.h"

#include "call.h"
#include "nodes/graph.h"
#include "payload/values.h"

uint32_t ecx_check_per_token(const ecx_call *c, const ecx_node *n, const ecx_value *v,
                             uint32_t nonbatch_dims) {
  if (v->scheme != ECX_PER_TOKEN || v->nonbatch_dims == nonbatch_dims) return EC_BACKEND_OK;
  return REFUSE(c, n, "an input with dynamic quantisation over %u dimensions, expected %u",
                (unsigned)v->nonbatch_dims, (unsigned)nonbatch_dims);
}
