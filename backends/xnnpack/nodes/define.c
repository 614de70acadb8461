/* The message of a failed definition of a node. */
#include "nodes/define.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "nodes/graph.h"
#include "payload/values.h"
#include "status.h"

uint32_t ecx_node_status(const ecx_builder *b, const ecx_node *n, const char *what,
                         enum xnn_status status) {
  char text[ECX_TEXT] = "", shape[ECX_TEXT / 4];
  if (status == xnn_status_success) return EC_BACKEND_OK;
  for (unsigned i = 0; i < n->kind->inputs; i++) {
    const ecx_value *v = ecx_in(b->graph, n, i);
    size_t used = strlen(text);
    if (v)
      snprintf(text + used, sizeof text - used, "%s%s %s", i ? ", " : "",
               ecx_dtypes[v->dtype].name, ecx_shape_text(&v->shape, shape, sizeof shape));
  }
  const ecx_value *out = ecx_out(b->graph, n, 0);
  return ecx_fail_node(b->c, n, ecx_status_code(status), "%s failed: '%s' for %s -> %s %s", what,
                       ecx_status_name(status), text, ecx_dtypes[out->dtype].name,
                       ecx_shape_text(&out->shape, shape, sizeof shape));
}
