/* Traces: the time and the results of each node.
 *
 * XNNPACK fuses nodes and keeps no values, so separate runtimes provide both. They are created when
 * a trace first requests them: one with XNNPACK's profile, one in which every computed value is an
 * output. Calls without a trace have no extra cost. */
#include "run/trace.h"

#include <math.h>
#include <string.h>

#include "call.h"
#include "nodes/elide.h"
#include "nodes/graph.h"
#include "nodes/kind.h"
#include "payload/values.h"
#include "run/build.h"
#include "run/delegate.h"
#include "run/engine.h"
#include "run/memory.h"
#include "run/step.h"

enum { FLOAT32 = 6, NANOSECONDS = 1000 };

/* ---- times ----------------------------------------------------------------------------------- */

/* XNNPACK's operators after fusion. */
typedef struct profile {
  size_t count;
  const char *names; /* consecutive, each with its NUL */
  size_t names_size;
  const uint64_t *times;
} profile;

static void *read_info(const ecx_call *c, xnn_runtime_t runtime, enum xnn_profile_info what,
                       size_t *size) {
  *size = 0;
  xnn_get_runtime_profiling_info(runtime, what, 0, NULL, size);
  void *out = c->host->scratch(c->call, *size + 1);
  if (!out || xnn_get_runtime_profiling_info(runtime, what, *size, out, size) != xnn_status_success)
    return NULL;
  ((char *)out)[*size] = '\0';
  return out;
}

static uint32_t read_profile(const ecx_call *c, xnn_runtime_t runtime, profile *out) {
  size_t size;
  out->names = read_info(c, runtime, xnn_profile_info_operator_name, &out->names_size);
  out->times = read_info(c, runtime, xnn_profile_info_operator_timing, &size);
  out->count = size / sizeof *out->times;
  return out->names && out->times
             ? EC_BACKEND_OK
             : ecx_fail(c, EC_BACKEND_INTERNAL, "XNNPACK reports no times of its nodes");
}

/* True if XNNPACK fuses the node into another: a clamp into the previous node, zero padding into
 * the following convolution, a copy of either. Only the number of remaining nodes matters. */
static bool is_fused(const ecx_graph *g, const ecx_node *n) {
  if (n->kind->fusion != ECX_FUSION_CLAMP) return false;
  const uint32_t read = g->elided[n->in[0]].same;
  const ecx_value *in = &g->values[read];
  return in->producer != ECX_NONE && g->elided[read].uses == 1 && !in->is_output &&
         g->nodes[in->producer].kind->fusion != ECX_FUSION_ALONE;
}

static bool is_run(const ecx_graph *g, const ecx_node *n) {
  return ecx_is_run(g, n) && !is_fused(g, n);
}

static size_t count_nodes(const ecx_graph *g) {
  size_t count = 0;
  for (uint32_t i = 0; i < g->node_count; i++) count += is_run(g, &g->nodes[i]) ? 1 : 0;
  return count;
}

/* Reports the time of operator `i` of the profile; `n` is its node, or NULL. */
static void report_time(const ecx_call *c, profile *p, size_t i, const ecx_node *n) {
  const bool named = p->names_size > 0;
  const ec_backend_node node = {n ? n->debug_handle : UINT32_MAX, named ? p->names : "",
                                p->times[i] * NANOSECONDS};
  c->host->trace_node(c->call, &node);
  const size_t size = named ? strlen(p->names) + 1 : 0;
  p->names += size;
  p->names_size -= size < p->names_size ? size : p->names_size;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_computed(const ecx_delegate *d, const ecx_value *v) {
  return v->is_output || ecx_is_shown(&d->graph, v);
}

/* Allocates memory for every computed value in its current shape. */
static uint32_t make_room(const ecx_call *c, ecx_delegate *d) {
  const ecx_graph *g = &d->graph;
  if (!d->shown) d->shown = c->host->alloc(g->value_count * sizeof *d->shown);
  for (uint32_t i = 0; d->shown && i < g->value_count; i++) {
    size_t bytes;
    if (!is_computed(d, &g->values[i]) || !ecx_value_bytes(&g->values[i], &bytes)) continue;
    if (!ecx_buffer_grow(c->host, &d->shown[i], bytes))
      return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory to show a value of %zu bytes",
                      bytes);
  }
  return d->shown ? EC_BACKEND_OK
                  : ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory to show values");
}

/* Lists the memory in the order of engine.c: inputs, outputs, and the other shown values. */
static void **list_memory(const ecx_call *c, const ecx_delegate *d, void *const *pointers) {
  const ecx_graph *g = &d->graph;
  void **out = c->host->scratch(c->call, (d->external_count + g->value_count) * sizeof *out);
  uint32_t count = 0;
  if (!out) return NULL;
  for (; count < d->input_count; count++) out[count] = pointers[count];
  for (; count < d->external_count; count++) out[count] = d->shown[d->externals[count].value].at;
  for (uint32_t i = 0; i < g->value_count; i++)
    if (ecx_is_shown(g, &g->values[i])) out[count++] = d->shown[i].at;
  return out;
}

/* Dequantises values. */
static float *dequantize(const ecx_call *c, const ecx_value *v, const void *data, size_t count) {
  float *out = c->host->scratch(c->call, count * sizeof *out + 1);
  for (size_t i = 0; out && i < count; i++) {
    int32_t q = v->dtype == ECX_quint8   ? ((const uint8_t *)data)[i]
                : v->dtype == ECX_qint32 ? ((const int32_t *)data)[i]
                                         : ((const int8_t *)data)[i];
    out[i] = (float)(q - v->zero_point) * v->scale;
  }
  return out;
}

/* Quantises what dequantize has returned. */
static void quantize(const ecx_value *v, const float *from, void *data, size_t count) {
  const bool is_unsigned = v->dtype == ECX_quint8, is_wide = v->dtype == ECX_qint32;
  const double low = is_wide ? INT32_MIN : is_unsigned ? 0 : INT8_MIN;
  const double high = is_wide ? INT32_MAX : is_unsigned ? UINT8_MAX : INT8_MAX;
  for (size_t i = 0; i < count; i++) {
    const double q = nearbyint((double)from[i] / (double)v->scale) + v->zero_point;
    const int32_t number = (int32_t)(q > low ? q < high ? q : high : low); /* NaN: the lowest */
    if (is_wide) ((int32_t *)data)[i] = number;
    else ((uint8_t *)data)[i] = (uint8_t)number;
  }
}

typedef void (*report_fn)(ec_host_call *call, uint32_t debug_handle,
                          const ec_backend_tensor *value);

static uint32_t report_value(const ecx_call *c, const ecx_value *v, void *data, uint32_t handle,
                             report_fn report) {
  const bool quantized = v->scheme != ECX_PLAIN, widened = v->dtype == ECX_bf16;
  void *const integers = data;
  int64_t sizes[XNN_MAX_TENSOR_DIMS], strides[XNN_MAX_TENSOR_DIMS], step = 1;
  static const uint8_t order[XNN_MAX_TENSOR_DIMS] = {0, 1, 2, 3, 4, 5};
  size_t count, bytes;
  if (!ecx_shape_count(&v->shape, &count) || !ecx_value_bytes(v, &bytes)) return EC_BACKEND_OK;
  if (quantized) data = dequantize(c, v, data, count);
  if (!data) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory to show a value");
  for (size_t i = v->shape.rank; i-- > 0;) {
    sizes[i] = (int64_t)v->shape.dims[i];
    strides[i] = step;
    step *= sizes[i];
  }
  const ec_backend_tensor tensor = {
    .data = data, .nbytes = quantized ? count * sizeof(float) : bytes,
    .capacity = quantized ? count * sizeof(float) : bytes,
    .dtype = quantized || widened ? FLOAT32 : ecx_dtypes[v->dtype].scalar,
    .rank = (uint16_t)v->shape.rank, .sizes = sizes, .strides = strides, .dim_order = order};
  report(c->call, handle, &tensor);
  if (quantized && (c->host->trace_wants(c->call) & EC_BACKEND_TRACE_ALTERS))
    quantize(v, data, integers, count);
  return EC_BACKEND_OK;
}

/* Returns an operand as plain numbers; NULL for a weight in another form. */
static void *read_operand(const ecx_delegate *d, uint32_t index, void *const *pointers) {
  const ecx_value *v = &d->graph.values[index];
  size_t bytes;
  if (is_computed(d, v)) return d->shown[index].at;
  for (uint32_t i = 0; i < d->input_count; i++)
    if (d->externals[i].value == index) return pointers[i];
  const bool plain = v->scheme == ECX_PLAIN && (v->dtype == ECX_fp32 || v->dtype == ECX_fp16);
  if (!plain || !ecx_value_bytes(v, &bytes) || v->data.size < bytes) return NULL;
  return (void *)(uintptr_t)v->data.at; /* read-only */
}

static uint32_t report_inputs(const ecx_call *c, const ecx_delegate *d, const ecx_node *n,
                              void *const *pointers) {
  for (size_t i = 0; i < ECX_MAX_INPUTS; i++) {
    void *data = n->in[i] == ECX_NONE || n->is_dead ? NULL : read_operand(d, n->in[i], pointers);
    if (data)
      ECX_TRY(report_value(c, &d->graph.values[n->in[i]], data, n->debug_handle,
                           c->host->trace_input));
  }
  return EC_BACKEND_OK;
}

static uint32_t report_values(const ecx_call *c, const ecx_delegate *d, uint32_t wants,
                              const ecx_node *n, void *const *pointers) {
  if (wants & EC_BACKEND_TRACE_INPUTS) ECX_TRY(report_inputs(c, d, n, pointers));
  for (unsigned o = 0; o < n->kind->layout->outputs; o++)
    if (is_computed(d, ecx_out(&d->graph, n, o)))
      ECX_TRY(report_value(c, ecx_out(&d->graph, n, o), d->shown[n->out[o]].at, n->debug_handle,
                           c->host->trace_value));
  return EC_BACKEND_OK;
}

static uint32_t run_shown(const ecx_call *c, ecx_delegate *d, void *const *pointers) {
  ECX_TRY(make_room(c, d));
  void **memory = list_memory(c, d, pointers);
  if (!memory) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory to show values");
  return ecx_engine_run(c, d, ECX_SHOWN_RUN, memory);
}

void ecx_shown_close(const ec_host *host, ecx_delegate *d) {
  for (uint32_t i = 0; d->shown && i < d->graph.value_count; i++)
    ecx_buffer_close(host, &d->shown[i]);
  if (d->shown) host->free(d->shown);
  d->shown = NULL;
}

/* Reports nodes in order, each followed by its values: debug handles need not be distinct. If the
 * numbers of operators and nodes differ, times cannot be assigned to nodes: the operators follow
 * the nodes, whose numbers are those of other traces. Nodes that XNNPACK does not run take no time;
 * they are reported if they have values to show. */
static uint32_t report_nodes(const ecx_call *c, const ecx_delegate *d, uint32_t wants, profile *p,
                             void *const *pointers) {
  const ecx_graph *g = &d->graph;
  const bool known = count_nodes(g) == p->count, values = wants & EC_BACKEND_TRACE_VALUES;
  size_t at = 0;
  for (uint32_t i = 0; i < g->node_count; i++) {
    const ecx_node *n = &g->nodes[i];
    const ec_backend_node node = {n->debug_handle, n->kind->name, 0};
    if (n->is_dead) continue;
    if (known && is_run(g, n)) report_time(c, p, at++, n);
    else if (values) c->host->trace_node(c->call, &node);
    if (values) ECX_TRY(report_values(c, d, wants, n, pointers));
  }
  for (; at < p->count && !known; at++) report_time(c, p, at, NULL);
  return EC_BACKEND_OK;
}

/* ---- values that may be changed -------------------------------------------------------------- */

/* Returns the memory of all values, by index: of inputs, and of what nodes compute. */
static void **list_values(const ecx_call *c, const ecx_delegate *d, void *const *pointers) {
  const ecx_graph *g = &d->graph;
  void **out = c->host->scratch(c->call, g->value_count * sizeof *out + 1);
  for (uint32_t i = 0; out && i < g->value_count; i++)
    out[i] = is_computed(d, &g->values[i]) ? d->shown[i].at : NULL;
  for (uint32_t i = 0; out && i < d->input_count; i++) out[d->externals[i].value] = pointers[i];
  return out;
}

static bool shows_results(const ecx_delegate *d, const ecx_node *n) {
  for (unsigned o = 0; o < n->kind->layout->outputs; o++)
    if (is_computed(d, ecx_out(&d->graph, n, o))) return true;
  return false;
}

/* Runs the nodes one by one; each reads what the trace has left of the results before it. */
static uint32_t run_steps(const ecx_call *c, ecx_delegate *d, uint32_t wants,
                          void *const *pointers) {
  const ecx_graph *g = &d->graph;
  ECX_TRY(make_room(c, d));
  void **values = list_values(c, d, pointers);
  if (!values) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory to show values");
  for (uint32_t i = 0; i < g->node_count; i++) {
    const ecx_node *n = &g->nodes[i];
    const ec_backend_node node = {n->debug_handle, n->kind->name, 0};
    if (n->is_dead) continue;
    if (shows_results(d, n)) ECX_TRY(ecx_step_run(c, d, n, values));
    c->host->trace_node(c->call, &node);
    ECX_TRY(report_values(c, d, wants, n, pointers));
  }
  for (uint32_t i = d->input_count; i < d->external_count; i++) {
    size_t bytes;
    const uint32_t value = d->externals[i].value;
    if (ecx_value_bytes(&g->values[value], &bytes)) memcpy(pointers[i], values[value], bytes);
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_trace_run(const ecx_call *c, ecx_delegate *d, uint32_t wants, void *const *pointers) {
  const bool timed = wants & EC_BACKEND_TRACE_TIMES;
  profile p = {0};
  if (wants & EC_BACKEND_TRACE_ALTERS) return run_steps(c, d, wants, pointers);
  ECX_TRY(ecx_engine_run(c, d, timed ? ECX_TIMED_RUN : ECX_PLAIN_RUN, pointers));
  if (timed) ECX_TRY(read_profile(c, d->engines[ECX_TIMED_RUN].runtime, &p));
  if (wants & EC_BACKEND_TRACE_VALUES) ECX_TRY(run_shown(c, d, pointers));
  return report_nodes(c, d, wants, &p, pointers);
}
