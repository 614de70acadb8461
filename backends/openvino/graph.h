/* The model of a payload as layers, the values that they write, and edges. */
#ifndef ECO_GRAPH_H
#define ECO_GRAPH_H

#include "blob.h"
#include "xml.h"

/* An output port of a layer. */
typedef struct eco_value {
  uint32_t layer, port;
  eco_text precision; /* "FP32" */
  bool is_named;      /* it has a name of the exported graph */
  size_t first_dim, rank;
} eco_value;

typedef struct eco_layer {
  uint32_t id; /* numbers in edges: parameters and results are not in their order */
  eco_text name, type;
  size_t first_value, value_count;
  size_t first_input, input_count;
  size_t first_edge, edge_count; /* one for each input */
  int64_t at, bytes;             /* of a Const, among the constants */
} eco_layer;

typedef struct eco_edge {
  uint32_t from, from_port, to;
  uint32_t value; /* index */
} eco_edge;

typedef struct eco_graph {
  char *text; /* the XML */
  size_t text_size;
  eco_layer *layers;
  eco_value *values;
  eco_edge *edges; /* by the layer that reads */
  int64_t *dims;   /* -1: dynamic */
  bool *connected; /* by input */
  uint32_t *by_id; /* index of a layer + 1; 0: no layer has the id */
  size_t id_count; /* layers in the text, those of bodies too */
  size_t layers_end, edges_end; /* of the end tags in the text; 0: none */
  size_t input_count, layer_count, value_count, edge_count, dim_count;
} eco_graph;

/* Reads the model of a known payload. It must be closed, after a failure too. Errors:
 * InvalidProgram (numbers of layers and ports that do not fit, inputs without an edge, constants
 * outside the payload). */
uint32_t eco_graph_open(const ec_backend_call *c, const eco_blob *blob, eco_graph *out);

/* Writes the XML of a known payload to a graph without one. */
uint32_t eco_graph_decode(const ec_backend_call *c, const eco_blob *blob, eco_graph *out);
/* Likewise eco_graph_open, for a graph that is zero but for its XML. */
uint32_t eco_graph_parse(const ec_backend_call *c, const eco_blob *blob, eco_graph *g);

/* Returns the operator of the exported graph that a layer's name states, "aten.addmm.default" of
 * "aten_addmm_default/aten.addmm.default/Add"; its type without one. */
eco_text eco_layer_operator(const eco_layer *layer);

/* True if the layer computes something: it is no parameter, result or constant. */
bool eco_layer_computes(const eco_layer *layer);

void eco_graph_close(const ec_host *host, eco_graph *graph);

#endif
