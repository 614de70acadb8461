/* Traces: what each node took, and what it computed.
 *
 * XNNPACK fuses nodes and keeps no values, so both come from runtimes of their own, made when a
 * trace first asks: one with XNNPACK's profile, one in which every computed value is an output.
 * Calls that are not traced pay nothing. */
#include <string.h>

#include "delegate.h"
#include "nodes.h"

enum { FLOAT32 = 6, NANOSECONDS = 1000 };

/* ---- times ----------------------------------------------------------------------------------- */

/* XNNPACK's operators after it has fused some. */
typedef struct profile {
  size_t count;
  const char *names; /* one after the other, each with its NUL */
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
             : ecx_fail(c, EC_BACKEND_INTERNAL, "XNNPACK does not tell what its nodes took");
}

/* Whether XNNPACK makes the node part of another: a clamp of the one before it, zero padding of the
 * convolution behind it, a copy of either. Only the number of those left is relied on. */
static bool is_fused(const ecx_graph *g, const ecx_node *n) {
  static const char *const clamped[] = {"Conv2d",          "DepthwiseConv2d", "ConvTranspose2d",
                                        "FullyConnected",  "AvgPooling2d",    "MaxPooling2d",
                                        "Clamp"};
  const ecx_value *in = ecx_in(g, n, 0);
  if (strcmp(n->kind->name, "Clamp") != 0 || in->producer == ECX_NONE || in->readers != 1 ||
      in->is_output)
    return false;
  for (size_t i = 0; i < sizeof clamped / sizeof clamped[0]; i++)
    if (strcmp(g->nodes[in->producer].kind->name, clamped[i]) == 0) return true;
  return false;
}

/* The next node that XNNPACK runs, from *at on. */
static const ecx_node *next_node(const ecx_graph *g, uint32_t *at) {
  while (*at < g->node_count) {
    const ecx_node *n = &g->nodes[(*at)++];
    if (!n->is_dead && !is_fused(g, n)) return n;
  }
  return NULL;
}

static size_t count_nodes(const ecx_graph *g) {
  size_t count = 0;
  for (uint32_t at = 0; next_node(g, &at);) count++;
  return count;
}

/* Where the numbers of operators and nodes differ nobody knows which is which. */
static uint32_t report_times(const ecx_call *c, const ecx_delegate *d) {
  profile p = {0};
  ECX_TRY(read_profile(c, d->engines[ECX_TIMED_RUN].runtime, &p));
  bool known = count_nodes(&d->graph) == p.count;
  const char *name = p.names, *end = p.names + p.names_size;
  uint32_t at = 0;
  for (size_t i = 0; i < p.count; i++) {
    const ecx_node *n = known ? next_node(&d->graph, &at) : NULL;
    const ec_backend_node node = {n ? n->debug_handle : UINT32_MAX, name < end ? name : "",
                                  p.times[i] * NANOSECONDS};
    c->host->trace_node(c->call, &node);
    if (name < end) name += strlen(name) + 1;
  }
  return EC_BACKEND_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_computed(const ecx_delegate *d, const ecx_value *v) {
  return v->is_output || ecx_is_shown(&d->graph, v);
}

/* Memory for every computed value in its present shape. */
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

/* As engine.c lists them: inputs, outputs, and what else is shown. */
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

/* Quantised values as the numbers that they stand for. */
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

static uint32_t report_value(const ecx_call *c, const ecx_delegate *d, uint32_t index) {
  const ecx_value *v = &d->graph.values[index];
  bool quantized = v->scheme != ECX_PLAIN, widened = v->dtype == ECX_bf16;
  int64_t sizes[XNN_MAX_TENSOR_DIMS], strides[XNN_MAX_TENSOR_DIMS], step = 1;
  static const uint8_t order[XNN_MAX_TENSOR_DIMS] = {0, 1, 2, 3, 4, 5};
  void *data = d->shown[index].at;
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
  c->host->trace_value(c->call, d->graph.nodes[v->producer].debug_handle, &tensor);
  return EC_BACKEND_OK;
}

static uint32_t report_values(const ecx_call *c, ecx_delegate *d, void *const *pointers) {
  const ecx_graph *g = &d->graph;
  ECX_TRY(make_room(c, d));
  void **memory = list_memory(c, d, pointers);
  if (!memory) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory to show values");
  ECX_TRY(ecx_engine_run(c, d, ECX_SHOWN_RUN, memory));
  for (uint32_t i = 0; i < g->node_count; i++)
    for (unsigned o = 0; o < g->nodes[i].kind->layout->outputs; o++)
      if (is_computed(d, ecx_out(g, &g->nodes[i], o)))
        ECX_TRY(report_value(c, d, g->nodes[i].out[o]));
  return EC_BACKEND_OK;
}

void ecx_shown_close(const ec_host *host, ecx_delegate *d) {
  for (uint32_t i = 0; d->shown && i < d->graph.value_count; i++)
    ecx_buffer_close(host, &d->shown[i]);
  if (d->shown) host->free(d->shown);
  d->shown = NULL;
}

uint32_t ecx_trace_run(const ecx_call *c, ecx_delegate *d, uint32_t wants, void *const *pointers) {
  bool timed = wants & EC_BACKEND_TRACE_TIMES;
  ECX_TRY(ecx_engine_run(c, d, timed ? ECX_TIMED_RUN : ECX_PLAIN_RUN, pointers));
  if (timed) ECX_TRY(report_times(c, d));
  return wants & EC_BACKEND_TRACE_VALUES ? report_values(c, d, pointers) : EC_BACKEND_OK;
}
