/* Values of the graph. A buffer that the graph mutates is state: it keeps its value between
 * calls. */
#include "graph.h"

#include <string.h>

#include "fields.h"

static uint32_t no_memory(ecn_graph *g) {
  return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for the graph's values");
}

uint32_t ecn_set_value(ecn_graph *g, ect_text name, int64_t value) {
  return ect_names_set(&g->values, name, (uint32_t)value) ? EC_BACKEND_OK : no_memory(g);
}

uint32_t ecn_find_value(ecn_graph *g, ect_text name, int64_t *out) {
  const uint32_t found = ect_names_find(&g->values, name);
  if (found == UINT32_MAX)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "%sno value '%.80s' before its use",
                           g->program.place, (const char *)name.data);
  *out = found;
  return EC_BACKEND_OK;
}

/* Reads the sizes of a tensor of tensor_values. */
static uint32_t find_meta(ecn_graph *g, ect_text name, ect_tensor *out) {
  const uint32_t found = ect_names_find(&g->metas, name);
  if (found == UINT32_MAX)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "%sno sizes of tensor '%.80s'",
                           g->program.place, (const char *)name.data);
  const ec_fb_table row = ec_fb_vec_table(g->payload.tensors, found);
  return ecn_read_meta(&g->c, ec_fb_child(row, ECN_TensorValue_meta), name, out);
}

uint32_t ecn_add_tensor(ecn_graph *g, ect_text name, int64_t *out) {
  ect_tensor t;
  EC_BACKEND_TRY(find_meta(g, name, &t));
  *out = ect_add_tensor(&g->program, &t);
  return g->program.failed ? no_memory(g) : ecn_set_value(g, name, *out);
}

/* ---- constants and state --------------------------------------------------------------------- */

/* Adds a tensor with these bytes, or initial bytes. */
static uint32_t add_known(ecn_graph *g, ect_text name, ect_text key, ect_tensor *t,
                          const void *data, size_t size) {
  t->constant = ect_add_constant(&g->program, data, size);
  t->is_dynamic = false;
  const int64_t value = ect_add_tensor(&g->program, t);
  if (g->program.failed || !ect_names_set(&g->buffers, key, (uint32_t)value)) return no_memory(g);
  return ecn_set_value(g, name, value);
}

/* True if an output is the new value of this buffer. */
static bool is_mutated(const ecn_graph *g, ect_text key) {
  for (uint32_t i = 0; i < g->payload.specs.count; i++) {
    const ec_fb_table spec = ec_fb_vec_table(g->payload.specs, i);
    const ect_text target = ecn_text(spec, ECN_OutputSpec_target);
    if (ec_fb_u8(spec, ECN_OutputSpec_kind) == ECN_BUFFER_MUTATION && target.size == key.size &&
        memcmp(target.data, key.data, key.size) == 0)
      return true;
  }
  return false;
}

static uint32_t add_constant(ecn_graph *g, ec_fb_table ref) {
  const ect_text name = ecn_text(ref, ECN_NamedTensorRef_name);
  const ect_text key = ecn_text(ref, ECN_NamedTensorRef_data_key);
  ect_tensor t;
  const void *data;
  size_t size, needed;
  EC_BACKEND_TRY(ecn_read_meta(&g->c, ec_fb_child(ref, ECN_NamedTensorRef_meta), name, &t));
  const uint32_t status = g->c.host->named_data(g->c.call, (const char *)key.data, &data, &size);
  if (status == EC_BACKEND_NOT_FOUND)
    return EC_BACKEND_FAIL(
        &g->c, EC_BACKEND_NOT_FOUND,
        "constant '%.80s' is neither in the program nor in a data file: "
        "NativePartitioner stores constants in a .ptd file (native_weights) unless "
        "external_constants_tag=None",
        (const char *)key.data);
  if (status != EC_BACKEND_OK) return status;
  if (!ect_tensor_bytes(&t, &needed) || needed > size)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "constant '%.80s' has %zu bytes, fewer than its sizes need",
                           (const char *)key.data, size);
  const bool changes = ec_fb_bool(ref, ECN_NamedTensorRef_mutated) || is_mutated(g, key);
  t.role = changes ? ECT_STATE : ECT_CONSTANT;
  return add_known(g, name, key, &t, data, needed);
}

/* A buffer without data begins as zeros. */
static uint32_t add_buffer(ecn_graph *g, ec_fb_table spec) {
  const ect_text name = ecn_text(spec, ECN_MutableBufferSpec_name);
  ect_tensor t;
  size_t bytes;
  EC_BACKEND_TRY(find_meta(g, name, &t));
  if (!ect_tensor_bytes(&t, &bytes))
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "buffer '%.80s' is too large",
                           (const char *)name.data);
  void *zeros = ect_own(&g->program, bytes + 1);
  if (!zeros) return no_memory(g);
  t.role = ECT_STATE;
  return add_known(g, name, ecn_text(spec, ECN_MutableBufferSpec_fqn), &t, zeros, bytes);
}

uint32_t ecn_add_constants(ecn_graph *g) {
  const ecn_payload *p = &g->payload;
  for (uint32_t i = 0; i < p->constants.count; i++)
    EC_BACKEND_TRY(add_constant(g, ec_fb_vec_table(p->constants, i)));
  for (uint32_t i = 0; i < p->buffers.count; i++)
    EC_BACKEND_TRY(add_buffer(g, ec_fb_vec_table(p->buffers, i)));
  return EC_BACKEND_OK;
}

uint32_t ecn_add_inputs(ecn_graph *g) {
  const ec_fb_vec names = g->payload.inputs;
  for (uint32_t i = 0; i < names.count; i++) {
    const ect_text name = ecn_text_at(names, i);
    if (ect_names_find(&g->values, name) != UINT32_MAX)
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "input %u, '%.80s', has two values",
                             (unsigned)i, (const char *)name.data);
    int64_t value;
    EC_BACKEND_TRY(ecn_add_tensor(g, name, &value));
    ect_add_input(&g->program, value, false);
  }
  return EC_BACKEND_OK;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static uint32_t read_metas(ecn_graph *g) {
  for (uint32_t i = 0; i < g->payload.tensors.count; i++) {
    const ec_fb_table row = ec_fb_vec_table(g->payload.tensors, i);
    if (!ect_names_set(&g->metas, ecn_text(row, ECN_TensorValue_name), i)) return no_memory(g);
  }
  return EC_BACKEND_OK;
}

uint32_t ecn_scope_enter(ecn_graph *g, ec_fb_table graph, ecn_scope *outer) {
  *outer = (ecn_scope){g->payload, g->metas, g->values};
  g->metas = g->values = (ect_names){.host = g->c.host};
  g->depth++;
  ecn_read_graph(graph, &g->payload);
  return read_metas(g);
}

void ecn_scope_leave(ecn_graph *g, const ecn_scope *outer) {
  ect_names_free(&g->metas);
  ect_names_free(&g->values);
  g->payload = outer->payload;
  g->metas = outer->metas;
  g->values = outer->values;
  g->depth--;
}

uint32_t ecn_graph_open(void *graph, const ec_backend_call *c, const ec_backend_init *what) {
  ecn_graph *g = graph;
  g->c = *c;
  g->metas.host = g->values.host = g->buffers.host = c->host;
  EC_BACKEND_TRY(ecn_payload_open(c, what->payload, what->payload_size, &g->payload));
  return read_metas(g);
}

void ecn_graph_close(void *graph) {
  ecn_graph *g = graph;
  ect_names_free(&g->metas);
  ect_names_free(&g->values);
  ect_names_free(&g->buffers);
}
