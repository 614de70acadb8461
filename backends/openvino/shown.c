/* The second model: the payload's own, without regions, with a Result for each value that has a
 * name of the exported graph. Other values are those of parts of an operator, which the flow has
 * split. */
#include "shown.h"

#include "regions.h"
#include "tensors.h"

enum { LAYER_TEXT = 256, DIM_TEXT = 40 }; /* at most, of a Result with its edge; of a dimension */

/* ---- values ---------------------------------------------------------------------------------- */

static bool has_state(const eco_graph *g) {
  for (size_t i = 0; i < g->layer_count; i++)
    if (eco_text_is(g->layers[i].type, "ReadValue") || eco_text_is(g->layers[i].type, "Assign"))
      return true;
  return false;
}

/* True if a layer moves numbers that a layer without names has computed. The engine's compiler may
 * have moved a factor to that one, before a product, and the names after it are those of values
 * without the factor. Layers are in order: those before have their outputs. */
static bool moves_unnamed(const eco_graph *g, const uint32_t *outputs, const eco_layer *layer) {
  static const char *const moves[] = {"Reshape", "Squeeze", "Transpose", "Unsqueeze"};
  if (!layer->edge_count) return false;
  const uint32_t read = g->edges[layer->first_edge].value;
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    if (eco_text_is(layer->type, moves[i]))
      return outputs[read] == UINT32_MAX && eco_layer_computes(&g->layers[g->values[read].layer]);
  return false;
}

static bool is_shown(const eco_graph *g, const uint32_t *outputs, const eco_value *value) {
  const eco_layer *layer = &g->layers[value->layer];
  return value->is_named && value->rank <= ECO_RANK && eco_layer_computes(layer) &&
         eco_dtype_of_precision(value->precision) && !moves_unnamed(g, outputs, layer);
}

/* Numbers the outputs: those of the model's own results, then one for each other shown value.
 * Returns the number of these. */
static size_t number_outputs(const eco_delegate *d, const eco_graph *g, uint32_t *outputs) {
  uint32_t next = 0, shown = 0;
  for (size_t i = 0; i < g->value_count; i++) outputs[i] = UINT32_MAX;
  for (size_t i = 0; i < g->layer_count; i++) {
    const eco_layer *layer = &g->layers[i];
    if (!eco_text_is(layer->type, "Result") || !layer->edge_count) continue;
    outputs[g->edges[layer->first_edge].value] = next++;
  }
  for (size_t i = 0; i < g->value_count; i++)
    if (outputs[i] == UINT32_MAX && is_shown(g, outputs, &g->values[i]))
      outputs[i] = (uint32_t)d->outputs + shown++;
  return next == d->outputs ? shown : 0;
}

/* ---- the model's text ------------------------------------------------------------------------ */

static bool is_added(const eco_delegate *d, const eco_shown *s, size_t value) {
  return s->outputs[value] != UINT32_MAX && s->outputs[value] >= d->outputs;
}

static void add_layers(const eco_delegate *d, const eco_shown *s, eco_writer *w) {
  const eco_graph *g = &s->graph;
  for (size_t i = 0, id = g->id_count; i < g->value_count; i++) {
    const eco_value *value = &g->values[i];
    if (!is_added(d, s, i)) continue;
    eco_add_text(w, "<layer id=\"%zu\" name=\"executorch_c.%zu\" type=\"Result\" "
                 "version=\"opset1\"><input><port id=\"0\" precision=\"%s\">", id, id,
                 eco_dtype_of_precision(value->precision)->precision);
    for (size_t k = 0; k < value->rank; k++)
      eco_add_text(w, "<dim>%lld</dim>", (long long)g->dims[value->first_dim + k]);
    eco_add_text(w, "</port></input></layer>");
    id++;
  }
}

static void add_edges(const eco_delegate *d, const eco_shown *s, eco_writer *w) {
  const eco_graph *g = &s->graph;
  for (size_t i = 0, id = g->id_count; i < g->value_count; i++)
    if (is_added(d, s, i))
      eco_add_text(w, "<edge from-layer=\"%u\" from-port=\"%u\" to-layer=\"%zu\" to-port=\"0\"/>",
                   (unsigned)g->layers[g->values[i].layer].id, (unsigned)g->values[i].port, id++);
}

static void write_text(const eco_delegate *d, const eco_shown *s, eco_writer *w) {
  const eco_graph *g = &s->graph;
  const char *text = g->text;
  eco_add_bytes(w, text, g->layers_end);
  add_layers(d, s, w);
  eco_add_bytes(w, text + g->layers_end, g->edges_end - g->layers_end);
  add_edges(d, s, w);
  eco_add_bytes(w, text + g->edges_end, g->text_size - g->edges_end);
}

/* ---- compilation ----------------------------------------------------------------------------- */

static uint32_t fail_memory(const ec_backend_call *c, size_t size) {
  return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED,
                         "no memory to show values of a model of %zu "
                         "bytes",
                         size);
}

static uint32_t compile_text(const ec_backend_call *c, const eco_delegate *d, eco_shown *s,
                             const eco_writer *w) {
  const size_t size = eco_blob_prefix(&s->blob, d->payload) + w->used;
  uint8_t *bytes = c->host->scratch(c->call, size);
  if (!bytes) return fail_memory(c, size);
  eco_blob_replace(&s->blob, d->payload, w->at, w->used, bytes);
  return eco_engine_import(c, d, bytes, size, &s->model, &s->request);
}

static uint32_t check_outputs(const ec_backend_call *c, const eco_delegate *d, const eco_shown *s,
                              size_t added) {
  size_t outputs = 0;
  if (d->lib->compiled_model_outputs_size(s->model, &outputs) == 0 && outputs == d->outputs + added)
    return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                         "the model with %zu results to show values has %zu", d->outputs + added,
                         outputs);
}

static uint32_t compile(const ec_backend_call *c, const eco_delegate *d, eco_shown *s) {
  const eco_graph *g = &s->graph;
  s->outputs = c->host->alloc((g->value_count + 1) * sizeof *s->outputs);
  if (!s->outputs) return fail_memory(c, s->blob.model_size);
  const size_t added = number_outputs(d, g, s->outputs);
  if (!added || !g->layers_end || g->edges_end < g->layers_end) return EC_BACKEND_OK;
  eco_writer w = {.size = g->text_size + added * LAYER_TEXT + g->dim_count * DIM_TEXT};
  w.at = c->host->scratch(c->call, w.size);
  if (!w.at) return fail_memory(c, w.size);
  write_text(d, s, &w);
  EC_BACKEND_TRY(compile_text(c, d, s, &w));
  return check_outputs(c, d, s, added);
}

static uint32_t open_shown(const ec_backend_call *c, const eco_delegate *d, eco_shown *s) {
  const ec_backend_init what = {.payload = d->payload, .payload_size = (size_t)d->blob_bytes};
  EC_BACKEND_TRY(eco_blob_open(c, &what, &s->blob));
  EC_BACKEND_TRY(eco_regions_open(c, &s->blob, &s->graph));
  return has_state(&s->graph) ? EC_BACKEND_OK : compile(c, d, s);
}

uint32_t eco_shown_open(const ec_backend_call *c, eco_delegate *d, const eco_shown **out) {
  *out = NULL;
  if (!d->is_known) return EC_BACKEND_OK;
  if (!d->shown) {
    d->shown = c->host->alloc(sizeof *d->shown);
    if (!d->shown) return fail_memory(c, sizeof *d->shown);
    const uint32_t status = open_shown(c, d, d->shown);
    if (status) {
      eco_shown_close(c->host, d);
      return status;
    }
  }
  if (d->shown->outputs) *out = d->shown;
  return EC_BACKEND_OK;
}

void eco_shown_close(const ec_host *host, eco_delegate *d) {
  eco_shown *s = d->shown;
  if (!s) return;
  eco_engine_free(d->lib, s->model, s->request);
  if (s->outputs) host->free(s->outputs);
  eco_graph_close(host, &s->graph);
  host->free(s);
  d->shown = NULL;
}
