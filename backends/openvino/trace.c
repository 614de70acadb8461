/* Nodes with times are those that the engine has made; layers with values are the payload's. */
#include "trace.h"

#include <stdio.h>

#include "request.h"
#include "shown.h"
#include "tensors.h"

enum { NAME = 256, MICROSECOND = 1000 };

typedef void (*report_fn)(ec_host_call *call, uint32_t debug_handle,
                          const ec_backend_tensor *value);

static void trace_nodes(const ec_backend_call *c, const eco_delegate *d) {
  eco_profile profile = {0};
  if (d->lib->infer_request_get_profiling_info(d->request, &profile) != 0) return;
  for (size_t i = 0; i < profile.count; i++) {
    const eco_node *node = &profile.nodes[i];
    char name[NAME];
    if (node->status != ECO_EXECUTED) continue;
    snprintf(name, sizeof name, "%s (%s) %s", node->type, node->exec_type, node->name);
    const ec_backend_node row = {UINT32_MAX, name, (uint64_t)node->real_time * MICROSECOND};
    c->host->trace_node(c->call, &row);
  }
  d->lib->profiling_info_list_free(&profile);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* One call with shown values. */
typedef struct view {
  const ec_backend_call *c;
  const eco_delegate *d;
  const eco_shown *shown;
  const ec_backend_arg *args;
} view;

/* Reports a row-major tensor; one of another size than its shape's is left out. */
static void report_tensor(const view *v, const eco_dtype *row, const void *data, size_t nbytes,
                          size_t rank, const int64_t *sizes, report_fn report) {
  static const uint8_t order[ECO_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  int64_t strides[ECO_RANK], step = 1;
  for (size_t k = rank; k-- > 0;) {
    strides[k] = step;
    if (sizes[k] < 0 || (sizes[k] && step > INT64_MAX / sizes[k])) return;
    step *= sizes[k];
  }
  if ((uint64_t)step > nbytes / row->size || (uint64_t)step * row->size != nbytes) return;
  const ec_backend_tensor tensor = {
    .data = (void *)(uintptr_t)data, /* read-only */
    .nbytes = nbytes, .capacity = nbytes, .dtype = row->dtype, .rank = (uint16_t)rank,
    .sizes = sizes, .strides = strides, .dim_order = order};
  report(v->c->call, UINT32_MAX, &tensor);
}

static bool is_of_port(const eco_graph *g, const eco_value *value, const eco_result *r) {
  const eco_dtype *row = eco_dtype_of_precision(value->precision);
  if (!row || row->type != r->type || (size_t)r->shape.rank != value->rank) return false;
  for (size_t k = 0; k < value->rank; k++) {
    const int64_t size = g->dims[value->first_dim + k];
    if (size >= 0 && size != r->shape.dims[k]) return false;
  }
  return true;
}

static uint32_t report_output(const view *v, const eco_value *value, uint32_t output,
                              report_fn report) {
  const eco_library *lib = v->d->lib;
  const eco_layer *layer = &v->shown->graph.layers[value->layer];
  eco_result r;
  uint32_t status = eco_result_open(
    v->c, lib, output < v->d->outputs ? v->d->request : v->shown->request, output, &r);
  if (!status && !is_of_port(&v->shown->graph, value, &r))
    status =
        EC_BACKEND_FAIL(v->c, EC_BACKEND_INVALID_PROGRAM,
                        "the engine's value of layer %u (%.*s) is not of its dtype and shape",
                        (unsigned)value->layer,
                        (int)(layer->name.size < NAME ? layer->name.size : NAME), layer->name.at);
  if (!status)
    report_tensor(v, eco_dtype_of_type(r.type), r.data, r.size, value->rank, r.shape.dims, report);
  eco_result_close(lib, &r);
  return status;
}

/* Reports a constant whose port states a dtype and the sizes. */
static void report_constant(const view *v, const eco_value *value, report_fn report) {
  const eco_graph *g = &v->shown->graph;
  const eco_layer *layer = &g->layers[value->layer];
  const eco_dtype *row = eco_dtype_of_precision(value->precision);
  if (row && value->rank <= ECO_RANK)
    report_tensor(v, row, v->shown->blob.constants + layer->at, (size_t)layer->bytes, value->rank,
                  &g->dims[value->first_dim], report);
}

/* Reports what a parameter stands for. */
static void report_argument(const view *v, uint32_t layer, report_fn report) {
  size_t number = 0;
  for (uint32_t i = 0; i < layer; i++)
    number += eco_text_is(v->shown->graph.layers[i].type, "Parameter");
  if (number < v->d->inputs && v->args[number].kind == EC_BACKEND_TENSOR)
    report(v->c->call, UINT32_MAX, &v->args[number].as.tensor);
}

static uint32_t report_value(const view *v, uint32_t number, report_fn report) {
  const eco_value *value = &v->shown->graph.values[number];
  const eco_layer *layer = &v->shown->graph.layers[value->layer];
  const uint32_t output = v->shown->outputs[number];
  if (eco_text_is(layer->type, "Const")) report_constant(v, value, report);
  else if (eco_text_is(layer->type, "Parameter")) report_argument(v, value->layer, report);
  else if (output < v->d->outputs || (output != UINT32_MAX && v->shown->model))
    return report_output(v, value, output, report);
  return EC_BACKEND_OK;
}

static uint32_t report_layer(const view *v, const eco_layer *layer, uint32_t wants) {
  const eco_text operator = eco_layer_operator(layer);
  const ec_host *host = v->c->host;
  char name[NAME];
  snprintf(name, sizeof name, "%.*s", (int)(operator.size < NAME ? operator.size : NAME - 1),
           operator.at);
  host->trace_node(v->c->call, &(ec_backend_node){UINT32_MAX, name, 0});
  for (size_t k = 0; k < layer->edge_count && (wants & EC_BACKEND_TRACE_INPUTS); k++)
    EC_BACKEND_TRY(
        report_value(v, v->shown->graph.edges[layer->first_edge + k].value, host->trace_input));
  for (size_t k = 0; k < layer->value_count; k++)
    EC_BACKEND_TRY(report_value(v, (uint32_t)(layer->first_value + k), host->trace_value));
  return EC_BACKEND_OK;
}

static uint32_t trace_values(const ec_backend_call *c, eco_delegate *d, uint32_t wants,
                             ec_backend_arg *args) {
  const eco_shown *shown;
  EC_BACKEND_TRY(eco_shown_open(c, d, &shown));
  if (!shown) return EC_BACKEND_OK;
  if (shown->request) EC_BACKEND_TRY(eco_request_run(c, d, shown->request, args));
  const view v = {c, d, shown, args};
  for (size_t i = 0; i < shown->graph.layer_count; i++)
    if (eco_layer_computes(&shown->graph.layers[i]))
      EC_BACKEND_TRY(report_layer(&v, &shown->graph.layers[i], wants));
  return EC_BACKEND_OK;
}

uint32_t eco_trace(const ec_backend_call *c, eco_delegate *d, ec_backend_arg *args) {
  const uint32_t wants = c->host->trace_wants(c->call);
  if (wants && d->options.profile) trace_nodes(c, d);
  return wants & EC_BACKEND_TRACE_VALUES ? trace_values(c, d, wants, args) : EC_BACKEND_OK;
}
