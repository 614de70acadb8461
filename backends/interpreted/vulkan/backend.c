/* VulkanBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "call.h"
#include "describe.h"
#include "fields.h"
#include "graph.h"

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
static uint32_t add_input(ecv_graph *g, size_t index, int64_t id) {
  ect_program *p = &g->program;
  const ect_tensor *t;
  int64_t value;
  if (ecv_value_type(&g->payload, id) == ECV_SYM_INT) {
    EC_BACKEND_TRY(ecv_value(g, id, &value));
    const int64_t args[] = {add_number(g), value};
    ect_add_call(p, "aten::_local_scalar_dense", args, 2, NULL);
    ect_add_input(p, args[0], true);
    return EC_BACKEND_OK;
  }
  EC_BACKEND_TRY(ecv_tensor(g, id, &value, &t));
  if (t->role != ECT_COMPUTED)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "input %zu is a constant", index);
  const int32_t staging = staging_dtype(g, id, t->dtype);
  const int64_t input = staging == t->dtype ? value : ect_add_like(p, t, staging);
  if (input != value) ect_add_copy(p, input, value, NULL);
  ect_add_input(p, input, false);
  return EC_BACKEND_OK;
}

static uint32_t add_output(ecv_graph *g, int64_t id) {
  ect_program *p = &g->program;
  const ect_tensor *t;
  int64_t value;
  if (ecv_value_type(&g->payload, id) == ECV_SYM_INT) {
    EC_BACKEND_TRY(ecv_value(g, id, &value));
    const int64_t args[] = {value, add_number(g)};
    ect_add_call(p, "aten::scalar_tensor.out", args, 2, NULL);
    ect_add_output(p, args[1]);
    return EC_BACKEND_OK;
  }
  EC_BACKEND_TRY(ecv_tensor(g, id, &value, &t));
  const int32_t staging = staging_dtype(g, id, t->dtype);
  const int64_t output = staging == t->dtype ? value : ect_add_like(p, t, staging);
  if (output != value) ect_add_copy(p, value, output, NULL);
  ect_add_output(p, output);
  return EC_BACKEND_OK;
}

static uint32_t translate(void *graph) {
  ecv_graph *g = graph;
  const ecv_payload *p = &g->payload;
  EC_BACKEND_TRY(ecv_find_state(g));
  for (uint32_t i = 0; i < p->inputs.count; i++) {
    ect_set_place(&g->program, "input %u", (unsigned)i);
    EC_BACKEND_TRY(add_input(g, i, ec_fb_vec_i32(p->inputs, i)));
    g->computed[ec_fb_vec_i32(p->inputs, i)] = 1;
  }
  for (uint32_t i = 0; i < p->chain.count; i++) {
    const ecv_node node = ecv_node_at(p, i);
    EC_BACKEND_TRY(ecv_translate_call(g, &node));
  }
  for (uint32_t i = 0; i < p->outputs.count; i++) {
    ect_set_place(&g->program, "output %u", (unsigned)i);
    EC_BACKEND_TRY(add_output(g, ec_fb_vec_i32(p->outputs, i)));
    EC_BACKEND_TRY(ecv_check_computed(g, ec_fb_vec_i32(p->outputs, i)));
  }
  return EC_BACKEND_OK;
}

static const ect_format format = {
    ECT_FORMAT(ecv_graph),
    .open = ecv_graph_open,
    .translate = translate,
    .describe = ecv_describe,
    .close = ecv_graph_close,
    .lost_outputs =
        ": VulkanPartitioner without alias_buffer_mutations=True lowers the new value of "
        "a mutated buffer to an output that nothing stores, so that its state is lost"};

const ec_backend ecv_backend = ECT_BACKEND("VulkanBackend", &format);
