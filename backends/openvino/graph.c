/* Layers, ports and edges of an IR. Layers of bodies (loops, branches) belong to their layer. */
#include "graph.h"

#include <string.h>

/* The position in the text. */
typedef struct walk {
  size_t depth; /* of <layers> */
  bool in_inputs, in_outputs;
  size_t body_inputs, body_edges; /* of bodies */
} walk;

static void *alloc_rows(const ec_backend_call *c, size_t count, size_t size) {
  return c->host->alloc((count + 1) * size); /* count is less than the bytes of the text */
}

uint32_t eco_graph_decode(const ec_backend_call *c, const eco_blob *blob, eco_graph *g) {
  g->text = alloc_rows(c, blob->model_size, 1);
  if (!g->text)
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a model of %zu bytes",
                           blob->model_size);
  g->text_size = blob->model_size;
  for (size_t i = 0; i < g->text_size; i++) g->text[i] = eco_blob_text(blob, i);
  return EC_BACKEND_OK;
}

/* Counts the rows at most, those of bodies included, and allocates them. */
static uint32_t allocate_rows(const ec_backend_call *c, eco_graph *g) {
  eco_text left = {g->text, g->text_size};
  eco_tag tag;
  size_t layers = 0, values = 0, edges = 0, dims = 0;
  while (eco_xml_next(&left, &tag)) {
    layers += eco_text_is(tag.name, "layer");
    values += eco_text_is(tag.name, "port");
    edges += eco_text_is(tag.name, "edge");
    dims += eco_text_is(tag.name, "dim");
  }
  g->layers = alloc_rows(c, layers, sizeof *g->layers);
  g->values = alloc_rows(c, values, sizeof *g->values);
  g->edges = alloc_rows(c, edges, sizeof *g->edges);
  g->dims = alloc_rows(c, dims, sizeof *g->dims);
  g->connected = alloc_rows(c, values, sizeof *g->connected);
  g->by_id = alloc_rows(c, layers, sizeof *g->by_id);
  g->id_count = layers;
  if (g->layers && g->values && g->edges && g->dims && g->connected && g->by_id)
    return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu layers and %zu ports",
                         layers, values);
}

static uint32_t fail_layer(const ec_backend_call *c, const eco_graph *g, const char *what) {
  return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "the model's layer %zu %s",
                         g->layer_count ? g->layer_count - 1 : 0, what);
}

static uint32_t add_layer(const ec_backend_call *c, eco_graph *g, const eco_tag *tag) {
  uint32_t id;
  if (!eco_xml_index(tag, "id", &id) || id >= g->id_count || g->by_id[id])
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "the model's layers have no numbers of their "
                           "own below %zu: '%.*s' after %zu layers",
                           g->id_count,
                           (int)(tag->attributes.size < 40 ? tag->attributes.size : 40),
                           tag->attributes.at, g->layer_count);
  g->by_id[id] = (uint32_t)g->layer_count + 1;
  g->layers[g->layer_count++] = (eco_layer){.id = id, .name = eco_xml_attribute(tag, "name"),
                                            .type = eco_xml_attribute(tag, "type"),
                                            .first_value = g->value_count,
                                            .first_input = g->input_count};
  return EC_BACKEND_OK;
}

static uint32_t add_input(const ec_backend_call *c, eco_graph *g, const eco_tag *tag) {
  eco_layer *layer = &g->layers[g->layer_count - 1];
  uint32_t port;
  if (!eco_xml_index(tag, "id", &port) || port != layer->input_count)
    return fail_layer(c, g, "has input ports that are not numbered in order");
  layer->input_count++;
  g->input_count++;
  return EC_BACKEND_OK;
}

static uint32_t add_value(const ec_backend_call *c, eco_graph *g, const eco_tag *tag) {
  eco_layer *layer = &g->layers[g->layer_count - 1];
  eco_value *value = &g->values[g->value_count];
  *value = (eco_value){.layer = (uint32_t)g->layer_count - 1, .first_dim = g->dim_count,
                       .precision = eco_xml_attribute(tag, "precision"),
                       .is_named = eco_xml_attribute(tag, "names").size > 0};
  if (!eco_xml_index(tag, "id", &value->port) ||
      value->port != g->values[layer->first_value].port + layer->value_count)
    return fail_layer(c, g, "has output ports that are not numbered in order");
  layer->value_count++;
  g->value_count++;
  return EC_BACKEND_OK;
}

static uint32_t add_dim(const ec_backend_call *c, eco_graph *g, const eco_tag *tag) {
  if (!eco_text_number(tag->body, &g->dims[g->dim_count]))
    return fail_layer(c, g, "has an output whose dimension is not a number");
  if (g->value_count == g->layers[g->layer_count - 1].first_value)
    return fail_layer(c, g, "has a dimension before its output ports");
  g->dim_count++;
  g->values[g->value_count - 1].rank++;
  return EC_BACKEND_OK;
}

/* The bytes of a constant, in a body or not. */
static uint32_t add_data(const ec_backend_call *c, const eco_blob *blob, eco_graph *g,
                         const walk *w, const eco_tag *tag) {
  eco_layer *layer = &g->layers[g->layer_count - 1];
  const eco_text offset = eco_xml_attribute(tag, "offset"), size = eco_xml_attribute(tag, "size");
  const bool is_constant = w->depth == 1 && eco_text_is(layer->type, "Const");
  int64_t at, bytes;
  if (!is_constant && (!offset.size || !size.size)) return EC_BACKEND_OK;
  if (!eco_text_number(offset, &at) || !eco_text_number(size, &bytes) || at < 0 || bytes < 0 ||
      (uint64_t)at + (uint64_t)bytes > blob->constants_size)
    return fail_layer(c, g, "is a constant outside the payload's constants");
  if (is_constant) {
    layer->at = at;
    layer->bytes = bytes;
  }
  return EC_BACKEND_OK;
}

static const eco_layer *find_layer(const eco_graph *g, uint32_t id) {
  return id < g->id_count && g->by_id[id] ? &g->layers[g->by_id[id] - 1] : NULL;
}

static uint32_t add_edge(const ec_backend_call *c, eco_graph *g, const eco_tag *tag) {
  eco_edge *edge = &g->edges[g->edge_count];
  uint32_t to_port;
  const bool whole = eco_xml_index(tag, "from-layer", &edge->from) &&
                     eco_xml_index(tag, "from-port", &edge->from_port) &&
                     eco_xml_index(tag, "to-layer", &edge->to) &&
                     eco_xml_index(tag, "to-port", &to_port);
  const eco_layer *to = whole ? find_layer(g, edge->to) : NULL;
  const eco_layer *from = whole ? find_layer(g, edge->from) : NULL;
  const uint32_t first = from && from->value_count ? g->values[from->first_value].port : 0;
  if (!from || !to || edge->from_port < first || edge->from_port - first >= from->value_count ||
      to_port >= to->input_count || g->connected[to->first_input + to_port])
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "the model's edge %zu connects layers or ports "
                           "that do not exist, or an input twice",
                           g->edge_count);
  g->connected[to->first_input + to_port] = true;
  edge->value = (uint32_t)from->first_value + edge->from_port - first;
  edge->to = (uint32_t)(to - g->layers);
  edge->from = (uint32_t)(from - g->layers);
  g->layers[edge->to].edge_count++;
  g->edge_count++;
  return EC_BACKEND_OK;
}

/* Notes where an end tag of the model itself begins. */
static void note_end(eco_graph *g, const walk *w, const eco_tag *tag) {
  const size_t at = (size_t)(eco_tag_begin(tag) - g->text);
  if (w->depth) return;
  if (eco_text_is(tag->name, "layers")) g->layers_end = at;
  if (eco_text_is(tag->name, "edges")) g->edges_end = at;
}

static uint32_t read_tag(const ec_backend_call *c, const eco_blob *blob, eco_graph *g, walk *w,
                         const eco_tag *tag) {
  const bool in_layer = w->depth == 1 && g->layer_count;
  if (eco_text_is(tag->name, "layers")) {
    if (tag->is_end && !w->depth) return fail_layer(c, g, "ends twice");
    w->depth += tag->is_end ? (size_t)-1 : 1;
    if (tag->is_end) note_end(g, w, tag);
  } else if (tag->is_end) {
    note_end(g, w, tag);
    w->in_outputs &= w->depth != 1 || !eco_text_is(tag->name, "output");
    w->in_inputs &= !eco_text_is(tag->name, "input");
  } else if (eco_text_is(tag->name, "edge")) {
    if (w->depth == 0) return add_edge(c, g, tag);
    w->body_edges++;
  } else if (w->depth && eco_text_is(tag->name, "input")) {
    w->in_inputs = true;
    if (in_layer) w->in_outputs = false; /* a port_map has tags of the same names */
  } else if (w->in_inputs && eco_text_is(tag->name, "port")) {
    if (in_layer) return add_input(c, g, tag);
    w->body_inputs++;
  } else if (w->depth == 0) {
    return EC_BACKEND_OK;
  } else if (g->layer_count && eco_text_is(tag->name, "data")) {
    return add_data(c, blob, g, w, tag);
  } else if (eco_text_is(tag->name, "layer")) {
    w->in_inputs = false;
    if (w->depth > 1) return EC_BACKEND_OK;
    w->in_outputs = false;
    return add_layer(c, g, tag);
  } else if (in_layer && eco_text_is(tag->name, "output")) {
    w->in_outputs = true;
  } else if (in_layer && w->in_outputs && eco_text_is(tag->name, "port")) {
    return add_value(c, g, tag);
  } else if (in_layer && w->in_outputs && eco_text_is(tag->name, "dim")) {
    return add_dim(c, g, tag);
  }
  return EC_BACKEND_OK;
}

/* Each input has an edge, and layers without inputs are sources: the engine does not check it. */
static uint32_t check_inputs(const ec_backend_call *c, const eco_graph *g, const walk *w) {
  static const char *const sources[] = {"Const", "Parameter", "ReadValue", NULL};
  if (w->body_inputs != w->body_edges)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "bodies of the model's layers have %zu inputs, "
                           "but %zu edges",
                           w->body_inputs, w->body_edges);
  for (size_t i = 0; i < g->layer_count; i++) {
    const eco_layer *layer = &g->layers[i];
    size_t k = 0;
    while (sources[k] && !eco_text_is(layer->type, sources[k])) k++;
    if (layer->edge_count != layer->input_count || (!layer->input_count && !sources[k]))
      return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                             "the model's layer %zu of type %.*s has %zu "
                             "inputs, but %zu edges",
                             i, (int)(layer->type.size < 40 ? layer->type.size : 40),
                             layer->type.at, layer->input_count, layer->edge_count);
  }
  return EC_BACKEND_OK;
}

/* Sorts edges by the layer that reads, in their order. */
static uint32_t sort_edges(const ec_backend_call *c, eco_graph *g) {
  eco_edge *sorted = alloc_rows(c, g->edge_count, sizeof *sorted);
  if (!sorted)
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu edges",
                           g->edge_count);
  size_t next = 0;
  for (size_t i = 0; i < g->layer_count; i++) {
    g->layers[i].first_edge = next;
    next += g->layers[i].edge_count;
    g->layers[i].edge_count = 0;
  }
  for (size_t i = 0; i < g->edge_count; i++) {
    eco_layer *to = &g->layers[g->edges[i].to];
    sorted[to->first_edge + to->edge_count++] = g->edges[i];
  }
  c->host->free(g->edges);
  g->edges = sorted;
  return EC_BACKEND_OK;
}

uint32_t eco_graph_parse(const ec_backend_call *c, const eco_blob *blob, eco_graph *g) {
  walk w = {0};
  eco_tag tag;
  EC_BACKEND_TRY(allocate_rows(c, g));
  eco_text left = {g->text, g->text_size};
  while (eco_xml_next(&left, &tag)) EC_BACKEND_TRY(read_tag(c, blob, g, &w, &tag));
  if (!g->layer_count)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "the model has no layers");
  EC_BACKEND_TRY(check_inputs(c, g, &w));
  return sort_edges(c, g);
}

uint32_t eco_graph_open(const ec_backend_call *c, const eco_blob *blob, eco_graph *out) {
  *out = (eco_graph){0};
  EC_BACKEND_TRY(eco_graph_decode(c, blob, out));
  return eco_graph_parse(c, blob, out);
}

eco_text eco_layer_operator(const eco_layer *layer) {
  const char *end = layer->name.at + layer->name.size;
  const char *first = layer->name.size ? memchr(layer->name.at, '/', layer->name.size) : NULL;
  const char *at = first ? first + 1 : end;
  const char *stop = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
  if (!stop || !memchr(at, '.', (size_t)(stop - at))) return layer->type;
  return (eco_text){at, (size_t)(stop - at)};
}

bool eco_layer_computes(const eco_layer *layer) {
  return !eco_text_is(layer->type, "Parameter") && !eco_text_is(layer->type, "Result") &&
         !eco_text_is(layer->type, "Const");
}

void eco_graph_close(const ec_host *host, eco_graph *graph) {
  if (graph->text) host->free(graph->text);
  if (graph->layers) host->free(graph->layers);
  if (graph->values) host->free(graph->values);
  if (graph->edges) host->free(graph->edges);
  if (graph->dims) host->free(graph->dims);
  if (graph->connected) host->free(graph->connected);
  if (graph->by_id) host->free(graph->by_id);
}
