/* Layers of the model as nodes. Parameters, results and constants are values. */
#include "describe.h"

#include <stdio.h>

#include "regions.h"

enum { TEXT = 192 };

static const char *copy_text(char *out, eco_text text) {
  const size_t size = text.size < TEXT - 1 ? text.size : TEXT - 1;
  snprintf(out, TEXT, "%.*s", (int)size, text.at);
  return out;
}

static bool is_type(const eco_graph *g, size_t layer, const char *type) {
  return eco_text_is(g->layers[layer].type, type);
}

/* Numbers the arguments of the delegate: parameters, then the values that results read. */
static uint32_t number_arguments(const ec_backend_call *c, const eco_graph *g, uint32_t **out) {
  uint32_t next = 0, *arguments = c->host->alloc((g->value_count + 1) * sizeof *arguments);
  if (!arguments)
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu values",
                           g->value_count);
  for (size_t i = 0; i < g->value_count; i++)
    arguments[i] = is_type(g, g->values[i].layer, "Parameter") ? next++ : UINT32_MAX;
  for (size_t i = 0; i < g->layer_count; i++) {
    const eco_layer *layer = &g->layers[i];
    if (!is_type(g, i, "Result")) continue;
    uint32_t *argument = layer->edge_count ? &arguments[g->edges[layer->first_edge].value] : NULL;
    if (argument && *argument == UINT32_MAX) *argument = next;
    next++;
  }
  *out = arguments;
  return EC_BACKEND_OK;
}

static void show_value(const eco_graph *g, size_t i, uint32_t argument,
                       const ec_backend_visitor *visitor) {
  const eco_value *value = &g->values[i];
  const eco_layer *layer = &g->layers[value->layer];
  char precision[TEXT], name[TEXT];
  const bool constant = is_type(g, value->layer, "Const");
  bool is_dynamic = false;
  for (size_t k = 0; k < value->rank; k++) is_dynamic |= g->dims[value->first_dim + k] < 0;
  const ec_backend_inner_value shown = {
    .id = (uint32_t)i, .argument = argument, .constant = constant,
    .dtype = copy_text(precision, value->precision), .note = copy_text(name, layer->name),
    .rank = value->rank, .nbytes = constant ? (size_t)layer->bytes : 0,
    .sizes = is_dynamic ? NULL : &g->dims[value->first_dim]};
  visitor->value(visitor->user, &shown);
}

static void show_layer(const eco_graph *g, size_t i, uint32_t *ids,
                       const ec_backend_visitor *visitor) {
  const eco_layer *layer = &g->layers[i];
  char operator[TEXT], note[2 * TEXT], type[TEXT], name[TEXT];
  snprintf(note, sizeof note, "%s %s", copy_text(type, layer->type), copy_text(name, layer->name));
  for (size_t k = 0; k < layer->edge_count; k++) ids[k] = g->edges[layer->first_edge + k].value;
  for (size_t k = 0; k < layer->value_count; k++)
    ids[layer->edge_count + k] = (uint32_t)(layer->first_value + k);
  const ec_backend_inner_node node = {
    .debug_handle = UINT32_MAX, .name = copy_text(operator, eco_layer_operator(layer)),
    .note = note, .inputs = ids, .outputs = ids + layer->edge_count,
    .input_count = layer->edge_count, .output_count = layer->value_count};
  visitor->node(visitor->user, &node);
}

static uint32_t show_graph(const ec_backend_call *c, const eco_graph *g,
                           const ec_backend_visitor *visitor) {
  uint32_t *arguments = NULL;
  EC_BACKEND_TRY(number_arguments(c, g, &arguments));
  uint32_t *ids = c->host->alloc((g->edge_count + g->value_count + 1) * sizeof *ids);
  for (size_t i = 0; ids && i < g->value_count; i++) show_value(g, i, arguments[i], visitor);
  for (size_t i = 0; ids && i < g->layer_count; i++)
    if (eco_layer_computes(&g->layers[i])) show_layer(g, i, ids, visitor);
  c->host->free(arguments);
  if (!ids) return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for layers");
  c->host->free(ids);
  return EC_BACKEND_OK;
}

uint32_t eco_describe(const ec_backend_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor) {
  eco_blob blob;
  eco_graph graph = {0};
  EC_BACKEND_TRY(eco_blob_open(c, what, &blob));
  if (!blob.is_known)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "the payload of %zu bytes is not in the format of "
                           "OpenVINO 2025, which alone is read here",
                           what->payload_size);
  uint32_t status = eco_regions_open(c, &blob, &graph);
  if (!status) status = show_graph(c, &graph, visitor);
  eco_graph_close(c->host, &graph);
  return status;
}
