/* Runs any program like a caller would. All data of a result is read, so that a sanitizer checks
 * it. */
#include "testing/fuzz_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../backends/demo/demo.h"
#include "../../backends/interpreted/backends.h"
#include "../../backends/openvino/openvino_backend.h"
#include "../../backends/operators/libraries.h"
#ifdef EC_FUZZ_XNNPACK
#include "../../backends/xnnpack/xnnpack_backend.h"
#endif
#include "backend/registry.h"
#include "runtime/describe.h"
#include "runtime/inspect.h"
#include "runtime/method.h"
#include "runtime/operator.h"
#include "testing/alloc_fail.h"
#include "testing/fuzz_agree.h"
#include "testing/fuzz_state.h"

enum { MEMORY_LIMIT = 32 << 20, TRACE_LIMIT = 1 << 20, RUNS = 2 };

void ec_fuzz_init(void) {
  ec_backend_register(&demo_compiler_backend, NULL);
  ec_backend_register(&demo_executor_backend, NULL);
  ec_backend_register(&ecm_backend, NULL);
  ec_backend_register(&emx_backend, NULL);
  ec_operators_register(&emo_operators, NULL);
  ec_backend_register(&ecn_backend, NULL);
  ec_backend_register(&eco_backend, NULL);
  ec_operators_register(&cadence_operators, NULL);
  ec_operators_register(&cortex_m_operators, NULL);
  ec_backend_register(&ets_backend, NULL);
  ec_backend_register(&ets_vgf_backend, NULL);
  ec_operators_register(&eto_operators, NULL);
  ec_backend_register(&ecv_backend, NULL);
  ec_operators_register(&evo_operators, NULL);
#ifdef EC_FUZZ_XNNPACK
  ec_backend_register(&ecx_backend, NULL);
#endif
}

static void read_bytes(ec_fuzz *f, const void *data, size_t size) {
  const uint8_t *bytes = data;
  uint64_t sum = 0;
  for (size_t i = 0; i < size; i++) sum += bytes[i];
  f->sink += sum;
}

static void read_text(ec_fuzz *f, const char *text) {
  if (text) f->sink += strlen(text);
}

static void read_value(ec_fuzz *f, const ec_value *v, int depth) {
  switch ((ec_kind)v->kind) {
  case EC_KIND_TENSOR:
    if (v->as.tensor->data) read_bytes(f, v->as.tensor->data, ec_tensor_nbytes(v->as.tensor));
    return;
  case EC_KIND_STRING: read_text(f, v->as.string); return;
  case EC_KIND_BOOL_LIST: read_bytes(f, v->as.bools, v->count); return;
  case EC_KIND_DOUBLE_LIST: read_bytes(f, v->as.doubles, v->count * sizeof(double)); return;
  case EC_KIND_INT_LIST:
  case EC_KIND_TENSOR_LIST:
  case EC_KIND_OPTIONAL_TENSOR_LIST:
    for (uint32_t i = 0; i < v->count && depth < 4; i++) read_value(f, v->as.items[i], depth + 1);
    return;
  default: f->sink += v->kind;
  }
}

/* ---- running ----------------------------------------------------------------------------- */

static void read_trace(ec_fuzz *f, const ec_trace *trace) {
  for (const ec_event *event = ec_trace_first(trace); event; event = event->next) {
    read_text(f, event->name);
    for (const ec_event_value *v = event->values; v; v = v->next)
      if (v->data) read_bytes(f, v->data, v->nbytes);
  }
}

static void execute(ec_fuzz *f, ec_method *m, const ec_method_info *info) {
  ec_trace *trace = NULL;
  if (ec_random_below(&f->r, 4) == 0)
    trace = ec_trace_new(EC_TRACE_VALUES | EC_TRACE_RANGES, TRACE_LIMIT);
  ec_method_set_trace(m, trace);
  if (ec_fuzz_ok(f, ec_method_execute(m, &f->err), "execute")) {
    f->counts->ran++;
    for (size_t i = 0; i < info->output_count; i++) read_value(f, ec_method_output(m, i), 0);
  }
  ec_method_set_trace(m, NULL);
  if (trace) read_trace(f, trace);
  ec_trace_free(trace);
}

static void call(ec_fuzz *f, ec_method *m, const ec_method_info *info) {
  ec_fuzz_arrays a;
  ec_fuzz_ok(f, ec_method_lock(m, NULL, &f->err), "lock");
  if (ec_fuzz_bind(f, m, info, &a)) execute(f, m, info);
  ec_method_unlock(m);
  ec_fuzz_free(f, &a);
}

static void read_attributes(ec_fuzz *f, ec_method *m) {
  for (size_t i = 0; i < ec_method_attribute_count(m); i++) {
    const ec_tensor t = ec_method_attribute(m, i);
    read_text(f, ec_method_attribute_name(m, i));
    if (t.data) read_bytes(f, t.data, ec_tensor_nbytes(&t));
    if (t.data && ec_method_attribute_is_mutable(m, i)) memset(t.data, 0, ec_tensor_nbytes(&t));
  }
}

static void read_info(ec_fuzz *f, const ec_method_info *info) {
  read_text(f, info->name);
  read_text(f, info->encoded_inputs);
  read_text(f, info->encoded_outputs);
  for (size_t i = 0; i < info->output_count; i++)
    f->sink += (uint64_t)info->outputs[i].kind + info->outputs[i].tensor.nbytes;
  for (size_t i = 0; i < info->operator_count; i++) read_text(f, info->operators[i].name);
  for (size_t i = 0; i < info->delegate_count; i++) read_text(f, info->delegates[i].id);
  for (size_t i = 0; i < info->attribute_count; i++) read_text(f, info->attributes[i].name);
  for (size_t i = 0; i < info->arena_count; i++) f->sink += (uint64_t)info->arenas[i];
}

static void visit_value(void *user, const ec_backend_inner_value *value) {
  ec_fuzz *f = user;
  read_text(f, value->dtype);
  for (size_t d = 0; value->sizes && d < value->rank; d++) f->sink += (uint64_t)value->sizes[d];
}

static void visit_node(void *user, const ec_backend_inner_node *node) {
  ec_fuzz *f = user;
  read_text(f, node->name);
  for (size_t i = 0; i < node->input_count; i++) f->sink += node->inputs[i];
  for (size_t i = 0; i < node->output_count; i++) f->sink += node->outputs[i];
}

static void read_instr(ec_fuzz *f, const ec_inspection *s, const ec_inspect_instr *instr) {
  read_text(f, instr->name);
  for (size_t i = 0; i < instr->row.arg_count; i++) {
    read_text(f, instr->args[i].name);
    f->sink += s->values[instr->args[i].value].info.tensor.nbytes;
  }
  for (size_t i = 0; i < instr->frame_count; i++) read_text(f, instr->frames[i].file);
}

static void read_row(ec_fuzz *f, const ec_value_row *row) {
  const ec_kind kind = row->info.kind;
  for (uint32_t i = 0; i < row->items.count; i++)
    f->sink += kind == EC_KIND_BOOL_LIST     ? row->items.items[i]
               : kind == EC_KIND_DOUBLE_LIST ? ec_fb_vec_u64(row->items, i)
                                             : (uint64_t)ec_row_item(row, i);
}

static void read_inspection(ec_fuzz *f, const ec_program *program, const ec_inspection *s) {
  bool supported;
  const ec_backend_visitor visitor = {sizeof visitor, f, visit_value, visit_node, NULL};
  for (size_t i = 0; i < s->value_count; i++) read_row(f, &s->values[i]);
  for (size_t c = 0; c < s->chain_count; c++)
    for (size_t i = 0; i < s->chains[c].count; i++) read_instr(f, s, &s->chains[c].instrs[i]);
  for (size_t i = 0; i < s->delegate_count; i++)
    ec_fuzz_ok(f, ec_inspect_delegate(program, s, i, &visitor, &supported, &f->err),
               "inspect_delegate");
}

/* True if the whole method could be read. */
static int run_inspection(ec_fuzz *f, const ec_program *program, size_t index) {
  ec_inspection s;
  if (!ec_fuzz_ok(f, ec_inspection_init(program, index, &s, &f->err), "inspection")) return 0;
  read_inspection(f, program, &s);
  ec_inspection_deinit(&s);
  (void)ec_program_uses_kv_cache(program, index);
  return 1;
}

static void run_method(ec_fuzz *f, const ec_program *program, size_t index) {
  ec_method_info info;
  ec_method *m = NULL;
  ec_method_options options = {.reference_kernels = ec_random_below(&f->r, 4) == 0,
                               .delegation = (ec_delegation)ec_random_below(&f->r, 4)};
  f->counts->methods++;
  int described = ec_fuzz_ok(f, ec_program_describe(program, index, &info, &f->err), "describe");
  if (described) read_info(f, &info);
  const int seen = run_inspection(f, program, index);
  const char *name = ec_program_method_name(program, index);
  if (ec_fuzz_ok(f, ec_method_load(program, name, &options, &m, &f->err), "method_load")) {
    ec_method_memory memory;
    f->counts->loaded++;
    ec_method_get_memory(m, &memory);
    if (!described || !seen || info.input_count != ec_method_input_count(m)) {
      fprintf(stderr, "method '%s' loads, but its description differs\n", name);
      f->bad = 1;
    } else {
      for (int i = 0; i < RUNS; i++) call(f, m, &info);
    }
    read_attributes(f, m);
    ec_fuzz_ok(f, ec_method_lock(m, NULL, &f->err), "lock");
    if (!ec_fuzz_copy_state(m)) {
      fprintf(stderr, "method '%s' has another state than was restored\n", name);
      f->bad = 1;
    }
    ec_method_reset(m);
    ec_method_unlock(m);
  }
  ec_method_free(m);
  if (described) ec_method_info_deinit(&info);
}

static void run_program(ec_fuzz *f, const ec_program *program) {
  ec_program_info info;
  if (ec_fuzz_ok(f, ec_program_info_init(program, &info, &f->err), "program_info")) {
    for (size_t i = 0; i < info.named_count; i++) read_text(f, info.named[i].key);
    for (size_t i = 0; i < info.segment_count; i++) f->sink += info.segments[i].size;
    ec_program_info_deinit(&info);
  }
  for (size_t i = 0; i < ec_program_method_count(program); i++) run_method(f, program, i);
}

static int open_source(ec_fuzz *f, ec_source *out, ec_bytes bytes) {
  return ec_fuzz_ok(f, ec_source_open_buffer(out, bytes.data, bytes.size, NULL, NULL, &f->err),
                    "source");
}

/* the program owns the sources from ec_program_open on */
static ec_program *open_program(ec_fuzz *f, const ec_program_options *options, ec_bytes file,
                                ec_bytes data) {
  ec_source sources[2] = {{0}, {0}};
  ec_program *program = NULL;
  const size_t count = data.data != NULL;
  if (!open_source(f, &sources[0], file)) return NULL;
  if (count && !open_source(f, &sources[1], data)) {
    ec_source_close(&sources[0]);
    return NULL;
  }
  ec_fuzz_ok(f, ec_program_open(options, &sources[0], &sources[1], count, &program, &f->err),
             "program_open");
  return program;
}

/* Compares ways to run each method, with a second program: methods of one may share state. */
static void compare_ways(ec_fuzz *f, const ec_program *program, const ec_program_options *options,
                         ec_bytes file, ec_bytes data) {
  ec_program *other = open_program(f, options, file, data);
  for (size_t i = 0; other && i < ec_program_method_count(program); i++)
    ec_fuzz_agree(f, program, other, i);
  ec_program_free(other);
}

int ec_fuzz_run(ec_bytes file, ec_bytes data, ec_random r, ec_fuzz_counts *counts) {
  ec_fuzz f = {.r = r, .counts = counts};
  ec_alloc_fail memory;
  ec_alloc_fail_install(&memory);
  memory.limit = MEMORY_LIMIT;
  counts->cases++;
  const ec_program_options options = {(ec_verification)ec_random_below(&f.r, 2),
                                      ec_random_below(&f.r, 2) != 0};
  ec_program *program = open_program(&f, &options, file, data);
  if (program) {
    counts->opened++;
    run_program(&f, program);
    compare_ways(&f, program, &options, file, data);
    ec_program_free(program);
  }
  if (memory.alive) {
    fprintf(stderr, "%zu blocks of %zu bytes were not freed\n", memory.alive, memory.bytes);
    f.bad = 1;
  }
  ec_alloc_fail_remove(&memory);
  return f.bad;
}
