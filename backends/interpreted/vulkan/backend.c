/* VulkanBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../delegate.h"
#include "call.h"
#include "describe.h"
#include "fields.h"
#include "graph.h"
#include "../backends.h"

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* The dtype in which the caller passes a value. */
static int32_t staging_dtype(const ecv_graph *g, int64_t id, int32_t dtype) {
  const ec_fb_table table = ecv_value_table(&g->payload, id);
  const uint8_t datatype =
      (uint8_t)ec_fb_get(table, ECV_VkTensor_staging_datatype, 1, ECV_UNSET);
  const int32_t staging = ecv_scalar_type(datatype);
  return datatype == ECV_UNSET || staging < 0 ? dtype : staging;
}

static int64_t add_number(ecv_graph *g) {
  return ect_add_tensor(&g->program, &(ect_tensor){.dtype = EC_DTYPE_INT64});
}

/* An input is a tensor that the graph reads, perhaps after a conversion, or a number. */
static uint32_t add_input(ecv_graph *g, size_t index, int64_t id, int64_t *out, bool *is_number) {
  const ect_tensor *t;
  int64_t value;
  if (ecv_value_type(&g->payload, id) == ECV_SYM_INT) {
    EC_BACKEND_TRY(ecv_value(g, id, &value));
    *out = add_number(g);
    *is_number = true;
    const int64_t args[] = {*out, value};
    ect_add_call(&g->program, "aten::_local_scalar_dense", args, 2, NULL);
    return EC_BACKEND_OK;
  }
  EC_BACKEND_TRY(ecv_tensor(g, id, &value, &t));
  if (t->role != ECT_COMPUTED)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "input %zu is a constant", index);
  const int32_t dtype = t->dtype, staging = staging_dtype(g, id, dtype);
  *out = value;
  if (staging == dtype) return EC_BACKEND_OK;
  *out = ect_add_like(&g->program, t, staging);
  ect_add_copy(&g->program, *out, value, NULL);
  return EC_BACKEND_OK;
}

static uint32_t add_output(ecv_graph *g, int64_t id, int64_t *out) {
  const ect_tensor *t;
  int64_t value;
  if (ecv_value_type(&g->payload, id) == ECV_SYM_INT) {
    EC_BACKEND_TRY(ecv_value(g, id, &value));
    *out = add_number(g);
    const int64_t args[] = {value, *out};
    ect_add_call(&g->program, "aten::scalar_tensor.out", args, 2, NULL);
    return EC_BACKEND_OK;
  }
  EC_BACKEND_TRY(ecv_tensor(g, id, &value, &t));
  const int32_t dtype = t->dtype, staging = staging_dtype(g, id, dtype);
  *out = value;
  if (staging == dtype) return EC_BACKEND_OK;
  *out = ect_add_like(&g->program, t, staging);
  ect_add_copy(&g->program, value, *out, NULL);
  return EC_BACKEND_OK;
}

static uint32_t translate(ecv_graph *g, int64_t *inputs, bool *numbers, int64_t *outputs) {
  const ecv_payload *p = &g->payload;
  EC_BACKEND_TRY(ecv_find_state(g));
  for (uint32_t i = 0; i < p->inputs.count; i++) {
    ect_set_place(&g->program, "input %u", (unsigned)i);
    EC_BACKEND_TRY(add_input(g, i, ec_fb_vec_i32(p->inputs, i), &inputs[i], &numbers[i]));
    g->computed[ec_fb_vec_i32(p->inputs, i)] = 1;
  }
  for (uint32_t i = 0; i < p->chain.count; i++) {
    const ecv_node node = ecv_node_at(p, i);
    EC_BACKEND_TRY(ecv_translate_call(g, &node));
  }
  for (uint32_t i = 0; i < p->outputs.count; i++) {
    ect_set_place(&g->program, "output %u", (unsigned)i);
    EC_BACKEND_TRY(add_output(g, ec_fb_vec_i32(p->outputs, i), &outputs[i]));
    EC_BACKEND_TRY(ecv_check_computed(g, ec_fb_vec_i32(p->outputs, i)));
  }
  ect_copy_shared(&g->program, inputs, p->inputs.count, outputs, p->outputs.count);
  return EC_BACKEND_OK;
}

/* ---- the interface --------------------------------------------------------------------------- */

static uint32_t open_graph(ecv_graph *g, ect_delegate *out) {
  const ec_host *host = g->c.host;
  const size_t in = g->payload.inputs.count, outs = g->payload.outputs.count;
  int64_t *inputs = host->alloc((in + 1) * sizeof *inputs);
  int64_t *outputs = host->alloc((outs + 1) * sizeof *outputs);
  bool *numbers = host->alloc(in + 1);
  uint32_t status = EC_BACKEND_OK;
  if (!inputs || !outputs || !numbers)
    status = EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu inputs", in);
  if (status == EC_BACKEND_OK) status = translate(g, inputs, numbers, outputs);
  if (status == EC_BACKEND_OK)
    status = ect_delegate_open(g->c.call, &g->program, inputs, numbers, in, outputs, outs, out);
  host->free(inputs);
  host->free(outputs);
  host->free(numbers);
  return status;
}

static uint32_t open_payload(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                             ect_delegate *out) {
  const ec_backend_call c = {host, call};
  ecv_graph graph;
  EC_BACKEND_TRY(ecv_graph_open(&c, what->payload, what->payload_size, &graph));
  const uint32_t status = open_graph(&graph, out);
  ecv_graph_close(&graph);
  return status;
}

static uint32_t init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                     const ec_backend_init *what, void **handle) {
  (void)self;
  return ect_delegate_init(host, call, what, open_payload, handle);
}

static uint32_t execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                        void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  const ect_delegate *d = handle;
  const size_t wanted = d->input_count + d->output_count;
  if (count < wanted && count > d->input_count)
    return host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                      "the graph has %zu inputs and %zu outputs, but the program passes %zu "
                      "arguments: VulkanPartitioner without alias_buffer_mutations=True lowers the "
                      "new value of a mutated buffer to an output that nothing stores, so that its "
                      "state is lost",
                      d->input_count, d->output_count, count);
  if (count != wanted)
    return host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                      "%zu arguments, the graph has %zu inputs and %zu outputs", count,
                      d->input_count, d->output_count);
  return ect_delegate_run(d, call, args, count);
}

static uint32_t describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_init *what, const ec_backend_visitor *visitor) {
  (void)self;
  const ec_backend_call c = {host, call};
  return ecv_describe(&c, what, visitor);
}

const ec_backend ecv_backend = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_backend),
    .id = "VulkanBackend",
    .version = "interpreted on the CPU",
    .init = init,
    .execute = execute,
    .destroy = ect_delegate_destroy,
    .describe = describe,
    .reset = ect_delegate_reset,
};
