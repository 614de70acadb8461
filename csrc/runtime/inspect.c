/* A complete method as rows: those of decode.h, with the roles and names of arguments, and stack
 * traces. */
#include "runtime/inspect.h"

#include <string.h>

#include "backend/registry.h"
#include "kernels/llm/kv_cache.h"
#include "runtime/host_call.h"
#include "runtime/program.h"
#include "runtime/program_internal.h"

/* The state of reading a method. */
typedef struct reader {
  ec_inspection *s;
  ec_rows rows;
  const char **op_names; /* by index in the file */
  bool *defined;         /* by value: defined before the current instruction */
} reader;

/* ---- values, memory, inputs and outputs -------------------------------------------------- */

static ec_status read_arenas(const reader *r, ec_error *err) {
  ec_inspection *s = r->s;
  const uint32_t count = r->rows.arena_count;
  s->arena_count = count;
  EC_TRY(ec_arena_array(&s->arena, count, sizeof *s->arenas, "arenas", &s->arenas, err));
  for (uint32_t i = 0; i < count; i++) {
    size_t size;
    EC_TRY(ec_decode_memory(&r->rows, i + 1, &size, err));
    s->arenas[i] = (int64_t)size;
  }
  return EC_OK;
}

static ec_status read_values(const reader *r, ec_error *err) {
  ec_inspection *s = r->s;
  const uint32_t count = r->rows.values.count;
  EC_TRY(ec_arena_array(&s->arena, count, sizeof *s->values, "values", &s->values, err));
  s->value_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ec_status status = ec_decode_value(&r->rows, i, &s->values[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "value %u", i);
  }
  return EC_OK;
}

static ec_status read_io(const reader *r, ec_fb_vec indices, const char *what, uint32_t **out,
                         size_t *count, ec_error *err) {
  EC_TRY(ec_arena_array(&r->s->arena, indices.count, sizeof **out, what, out, err));
  *count = indices.count;
  for (uint32_t i = 0; i < indices.count; i++)
    EC_TRY(ec_decode_io(&r->rows, indices, i, what, &(*out)[i], err));
  return EC_OK;
}

/* ---- delegates --------------------------------------------------------------------------- */

static ec_status read_delegates(const reader *r, ec_error *err) {
  ec_inspection *s = r->s;
  const uint32_t count = r->rows.delegates.count;
  EC_TRY(ec_arena_array(&s->arena, count, sizeof *s->delegates, "delegates", &s->delegates, err));
  s->delegate_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ec_status status = ec_decode_delegate(&r->rows, i, &s->arena, &s->delegates[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "delegate %u", i);
  }
  return EC_OK;
}

ec_status ec_inspect_delegate(const ec_program *p, const ec_inspection *s, size_t delegate,
                              const ec_backend_visitor *visitor, bool *supported, ec_error *err) {
  const ec_delegate_row *row = &s->delegates[delegate];
  const ec_backend *backend = ec_backend_find(row->id);
  *supported = backend && EC_BACKEND_MEMBER(backend, describe);
  if (!*supported) return EC_OK;
  const ec_backend_init init = {.method = s->name, .payload = row->payload.data,
                                .payload_size = row->payload.size, .specs = row->specs,
                                .spec_count = row->spec_count, .program = p};
  ec_arena scratch = {0};
  ec_host_call call = ec_host_call_of(NULL, &scratch, err);
  call.program = p;
  ec_status status =
      (ec_status)backend->describe(backend, &ec_host_table, &call, &init, visitor);
  ec_arena_deinit(&scratch);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "delegate %zu, %s", delegate, row->id);
}

/* ---- operators --------------------------------------------------------------------------- */

static ec_status read_operators(reader *r, ec_error *err) {
  ec_inspection *s = r->s;
  const uint32_t count = r->rows.operators.count;
  EC_TRY(ec_arena_array(&s->arena, count, sizeof *s->ops, "operators", &s->ops, err));
  EC_TRY(ec_arena_array(&s->arena, count, sizeof *r->op_names, "names", &r->op_names, err));
  for (uint32_t i = 0; i < count; i++) {
    EC_TRY(ec_copy_op_name(&r->rows, i, &s->arena, &r->op_names[i], err));
    s->ops[i] = ec_op_acquire(r->op_names[i]);
    s->op_count = i + 1;
  }
  return EC_OK;
}

/* ---- roles of arguments ------------------------------------------------------------------ */

static ec_role role_of(const ec_arg_spec *spec) {
  return spec->is_out ? EC_ROLE_OUT : spec->written ? EC_ROLE_INOUT : EC_ROLE_IN;
}

static void name_args(const ec_op *op, ec_inspect_instr *instr) {
  for (size_t i = 0; i < instr->row.arg_count; i++) {
    ec_inspect_arg *arg = &instr->args[i];
    if (i < op->nargs) {
      arg->name = op->args[i].name;
      arg->role = (uint8_t)role_of(&op->args[i]);
    } else {
      arg->role = i == op->nargs && op->returns_scalar ? EC_ROLE_OUT : EC_ROLE_RETURN;
    }
  }
}

/* True if the last argument repeats argument `arg`: the same value, a list of the same tensors, or
 * a list that contains it. */
static bool is_result(const ec_inspection *s, uint32_t arg, uint32_t last) {
  const ec_value_row *a = &s->values[arg], *b = &s->values[last];
  if (arg == last) return true;
  if (b->info.kind != EC_KIND_TENSOR_LIST || !b->items.count) return false;
  if (a->info.kind == EC_KIND_TENSOR_LIST)
    return a->items.count == b->items.count &&
           memcmp(a->items.items, b->items.items, b->items.count * sizeof(int32_t)) == 0;
  for (uint32_t i = 0; i < b->items.count; i++)
    if (ec_row_item(b, i) == (int64_t)arg) return true;
  return false;
}

/* Guesses the outputs of an operator without a schema in this runtime. Exporters repeat its results
 * after the arguments, several as a list. */
static void guess_outputs(const ec_inspection *s, ec_inspect_instr *instr) {
  const size_t count = instr->row.arg_count;
  if (!count) return;
  ec_inspect_arg *last = &instr->args[count - 1];
  /* bounds the cost of hostile files */
  if (s->values[last->value].items.count > EC_MAX_OP_ARGS) return;
  for (size_t i = 0; i + 1 < count; i++) {
    if (!is_result(s, instr->args[i].value, last->value)) continue;
    instr->args[i].role = EC_ROLE_OUT;
    last->role = EC_ROLE_RETURN;
  }
}

/* ---- outputs of delegates, as in load_code.c --------------------------------------------- */

static bool is_tensor_list(const ec_value_row *row) {
  return row->info.kind == EC_KIND_TENSOR_LIST || row->info.kind == EC_KIND_OPTIONAL_TENSOR_LIST;
}

/* Marks a value as defined. A defined list has defined its items, so each list is walked once. */
static void define_value(const reader *r, uint32_t value) {
  const ec_value_row *row = &r->s->values[value];
  if (r->defined[value]) return;
  r->defined[value] = true;
  for (uint32_t i = 0; is_tensor_list(row) && i < row->items.count; i++)
    if (ec_row_item(row, i) >= 0) r->defined[ec_row_item(row, i)] = true;
}

static ec_status define_initial(reader *r, ec_error *err) {
  ec_inspection *s = r->s;
  EC_TRY(ec_arena_array(&s->arena, s->value_count, sizeof *r->defined, "values", &r->defined, err));
  for (size_t i = 0; i < s->input_count; i++) define_value(r, s->inputs[i]);
  for (uint32_t i = 0; i < s->value_count; i++)
    if (s->values[i].location > EC_LOCATION_PLANNED) r->defined[i] = true;
  return EC_OK;
}

static void find_outputs(const reader *r, ec_inspect_instr *instr) {
  for (size_t n = instr->row.arg_count; instr->row.delegate >= 0 && n > 0; n--) {
    ec_inspect_arg *arg = &instr->args[n - 1];
    if (r->s->values[arg->value].info.kind != EC_KIND_TENSOR || r->defined[arg->value]) break;
    arg->role = EC_ROLE_OUT;
  }
  for (size_t i = 0; i < instr->row.arg_count; i++) define_value(r, instr->args[i].value);
}

/* ---- instructions ------------------------------------------------------------------------ */

static ec_status read_args(const reader *r, ec_inspect_instr *instr, ec_error *err) {
  const size_t count = instr->row.arg_count;
  EC_TRY(ec_arena_array(&r->s->arena, count, sizeof *instr->args, "arguments", &instr->args, err));
  for (size_t i = 0; i < count; i++) instr->args[i].value = ec_row_arg(&instr->row, i);
  return EC_OK;
}

static ec_status check_no_lists(const reader *r, const ec_inspect_instr *instr, ec_error *err) {
  for (size_t i = 0; i < instr->row.arg_count; i++) {
    const ec_kind kind = r->s->values[instr->args[i].value].info.kind;
    if (kind >= EC_KIND_BOOL_LIST)
      return ec_fail(err, EC_INVALID_PROGRAM, "argument %zu is a %s", i, ec_kind_name(kind));
  }
  return EC_OK;
}

static void read_kernel_call(const reader *r, ec_inspect_instr *instr) {
  const ec_op *op = r->s->ops[instr->row.op];
  instr->name = r->op_names[instr->row.op];
  instr->available = op != NULL;
  if (op) name_args(op, instr);
  else guess_outputs(r->s, instr);
}

static ec_status read_instr(const reader *r, ec_fb_table table, ec_inspect_instr *instr,
                            ec_error *err) {
  EC_TRY(ec_decode_instr(&r->rows, table, &instr->row, err));
  EC_TRY(read_args(r, instr, err));
  if (instr->row.op >= 0) {
    read_kernel_call(r, instr);
  } else if (instr->row.delegate >= 0) {
    instr->name = r->s->delegates[instr->row.delegate].id;
  } else {
    EC_TRY(check_no_lists(r, instr, err));
    if (instr->row.kind == EC_INSTR_MoveCall) instr->args[1].role = EC_ROLE_OUT;
  }
  return EC_OK;
}

static ec_status read_frames(const reader *r, ec_fb_table list, ec_inspect_instr *instr,
                             ec_error *err) {
  ec_fb_vec items = ec_fb_vector(list, EC_PTE_FrameList_items);
  EC_TRY(ec_arena_array(&r->s->arena, items.count, sizeof *instr->frames, "a stack trace",
                        &instr->frames, err));
  instr->frame_count = items.count;
  for (uint32_t i = 0; i < items.count; i++) {
    ec_fb_table frame = ec_fb_vec_table(items, i);
    instr->frames[i] = (ec_inspect_frame){.file = ec_fb_string(frame, EC_PTE_Frame_filename),
                                          .function = ec_fb_string(frame, EC_PTE_Frame_name),
                                          .context = ec_fb_string(frame, EC_PTE_Frame_context),
                                          .line = ec_fb_i32(frame, EC_PTE_Frame_lineno)};
  }
  return EC_OK;
}

static ec_status read_chain(const reader *r, uint32_t index, ec_inspect_chain *chain,
                            ec_error *err) {
  ec_fb_vec instrs = ec_decode_chain(&r->rows, index);
  ec_fb_vec traces =
      ec_fb_vector(ec_fb_vec_table(r->rows.chains, index), EC_PTE_Chain_stacktrace);
  EC_TRY(ec_arena_array(&r->s->arena, instrs.count, sizeof *chain->instrs, "instructions",
                        &chain->instrs, err));
  chain->count = instrs.count;
  for (uint32_t i = 0; i < instrs.count; i++) {
    ec_inspect_instr *instr = &chain->instrs[i];
    ec_status status = read_instr(r, ec_fb_vec_table(instrs, i), instr, err);
    if (status == EC_OK && i < traces.count)
      status = read_frames(r, ec_fb_vec_table(traces, i), instr, err);
    if (status != EC_OK) return ec_fail_in(err, status, "instruction %u", i);
    find_outputs(r, instr);
  }
  return EC_OK;
}

static ec_status read_chains(reader *r, ec_error *err) {
  ec_inspection *s = r->s;
  const uint32_t count = r->rows.chains.count;
  EC_TRY(read_operators(r, err));
  EC_TRY(define_initial(r, err));
  EC_TRY(ec_arena_array(&s->arena, count, sizeof *s->chains, "chains", &s->chains, err));
  s->chain_count = count;
  for (uint32_t i = 0; i < count; i++) {
    ec_status status = read_chain(r, i, &s->chains[i], err);
    if (status != EC_OK) return count == 1 ? status : ec_fail_in(err, status, "chain %u", i);
  }
  return EC_OK;
}

/* ---- whole methods ----------------------------------------------------------------------- */

static ec_status read_method(const ec_program *p, size_t index, ec_inspection *s, ec_error *err) {
  reader r = {.s = s};
  ec_rows_init(&r.rows, p, index);
  s->name = p->names[index];
  EC_TRY(read_arenas(&r, err));
  EC_TRY(read_values(&r, err));
  EC_TRY(read_io(&r, r.rows.inputs, "input", &s->inputs, &s->input_count, err));
  EC_TRY(read_io(&r, r.rows.outputs, "output", &s->outputs, &s->output_count, err));
  EC_TRY(read_delegates(&r, err));
  return read_chains(&r, err);
}

ec_status ec_inspection_init(const ec_program *program, size_t method, ec_inspection *out,
                             ec_error *err) {
  *out = (ec_inspection){0};
  ec_status status = read_method(program, method, out, err);
  if (status == EC_OK) return EC_OK;
  ec_inspection_deinit(out);
  return ec_fail_in(err, status, "method '%s'", program->names[method]);
}

void ec_inspection_deinit(ec_inspection *s) {
  for (size_t i = 0; i < s->op_count; i++) ec_op_release(s->ops[i]);
  s->op_count = 0;
  ec_arena_deinit(&s->arena);
}

/* ---- needs ------------------------------------------------------------------------------- */

static void skip_value(void *user, const ec_backend_inner_value *value) {
  (void)user, (void)value;
}

static void skip_node(void *user, const ec_backend_inner_node *node) { (void)user, (void)node; }

/* A search for calls that need a KV cache. */
typedef struct cache_search {
  bool uses;
  size_t depth, opened; /* programs around this one; payloads opened as programs */
} cache_search;

static void note_operator(void *user, const char *name) {
  ((cache_search *)user)->uses |= ec_kv_cache_is_used_by(name);
}

static void search_method(const ec_program *program, size_t method, cache_search *search);

/* Searches all methods of a payload that is a program. */
static void search_payload(ec_bytes payload, cache_search *search) {
  enum { MAX_OPENED = 64 }; /* rows may share a payload */
  const ec_program_options options = {.verification = EC_VERIFY_INTERNAL_CONSISTENCY};
  ec_source source;
  ec_program *program;
  if (payload.size < 8 || memcmp(payload.data + 4, "ET", 2) != 0 ||
      search->depth + 1 >= EC_MAX_NESTED_PROGRAMS || search->opened++ >= MAX_OPENED ||
      ec_source_open_buffer(&source, payload.data, payload.size, NULL, NULL, NULL) != EC_OK ||
      ec_program_open(&options, &source, NULL, 0, &program, NULL) != EC_OK)
    return;
  search->depth++;
  for (size_t i = 0; i < ec_program_method_count(program); i++)
    search_method(program, i, search);
  search->depth--;
  ec_program_free(program);
}

static void search_method(const ec_program *program, size_t method, cache_search *search) {
  ec_inspection s;
  const ec_backend_visitor visitor = {sizeof visitor, search, skip_value, skip_node,
                                      note_operator};
  if (search->uses || ec_inspection_init(program, method, &s, NULL) != EC_OK) return;
  for (size_t i = 0; i < s.op_count; i++)
    search->uses |= s.ops[i] && ec_kv_cache_is_used_by(s.ops[i]->name);
  for (size_t i = 0; !search->uses && i < s.delegate_count; i++) {
    bool supported;
    (void)ec_inspect_delegate(program, &s, i, &visitor, &supported, NULL);
    if (!supported) search_payload(s.delegates[i].payload, search);
  }
  ec_inspection_deinit(&s);
}

bool ec_program_uses_kv_cache(const ec_program *program, size_t method) {
  cache_search search = {0};
  search_method(program, method, &search);
  return search.uses;
}
