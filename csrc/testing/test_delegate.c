/* runtime/: the host functions for a delegate, and its options. The test implements the backend.
 * Its program is the hand-made one of sample.c, reduced to two instructions: an addition, and a
 * call of the delegate on its result. */
#include <pthread.h>

#include "core/alloc.h"
#include "backend/registry.h"
#include "format/pte.h"
#include "runtime/inspect.h"
#include "runtime/method.h"
#include "runtime/options.h"
#include "testing/sample.h"
#include "testing/test.h"

enum { ADD_AND_CALL = 2, ITEMS = 4 };

/* The backend's action in a call, and its results. */
typedef struct probe {
  uint32_t (*work)(const ec_host *host, ec_host_call *call, ec_backend_arg *arg);
  size_t options; /* of the method, at init */
  int64_t level;  /* an option of the process */
  char name[16];
  uint32_t odd_kind; /* returned by reading "odd" */
  uint32_t kind;     /* of the last argument */
  size_t executes, repeats;
  uint32_t repeat_status;
} probe;

static probe seen;

static uint32_t open_delegate(const ec_backend *self, const ec_host *host, ec_host_call *call,
                              const ec_backend_init *init, void **handle) {
  (void)self, (void)handle;
  seen.options = init->option_count;
  for (size_t i = 0; i < init->option_count; i++)
    if (strcmp(init->options[i].key, "bad") == 0)
      return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "option 'bad' is not known");
  return EC_BACKEND_OK;
}

static uint32_t execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                        void *handle, ec_backend_arg *args, size_t count) {
  (void)self, (void)handle;
  if (count != 1) return host->fail(call, EC_BACKEND_INVALID_PROGRAM, "%zu arguments", count);
  seen.kind = args[0].kind;
  seen.executes++;
  return seen.work ? seen.work(host, call, args) : EC_BACKEND_OK;
}

static uint32_t repeat(const ec_backend *self, const ec_host *host, ec_host_call *call,
                       void *handle) {
  (void)self, (void)handle;
  seen.repeats++;
  return seen.repeat_status == EC_BACKEND_INTERNAL
             ? host->fail(call, seen.repeat_status, "cannot repeat") : seen.repeat_status;
}

static void destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self, (void)host, (void)handle;
}

static uint32_t set_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           const ec_backend_option *option) {
  (void)self;
  if (strcmp(option->key, "level") == 0 && option->kind == EC_BACKEND_INT) {
    seen.level = option->as.i;
    return EC_BACKEND_OK;
  }
  if (strcmp(option->key, "level") == 0)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "'level' must be an int");
  return strcmp(option->key, "quiet") == 0 ? EC_BACKEND_NOT_SUPPORTED : EC_BACKEND_NOT_FOUND;
}

static uint32_t get_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           ec_backend_option *option) {
  (void)self, (void)host, (void)call;
  if (strcmp(option->key, "level") == 0) {
    option->kind = EC_BACKEND_INT;
    option->as.i = seen.level;
  } else if (strcmp(option->key, "name") == 0) {
    option->kind = EC_BACKEND_STRING;
    option->as.string = seen.name;
  } else if (strcmp(option->key, "odd") == 0) {
    option->kind = seen.odd_kind;
  } else {
    return EC_BACKEND_NOT_FOUND;
  }
  return EC_BACKEND_OK;
}

static void report(const ec_backend *self, void *handle,
                   void (*add)(void *user, const char *name, int64_t value), void *user) {
  (void)self, (void)handle;
  add(user, "figure", 7);
}

static const char *const keys[] = {"level", "name", NULL};
static const ec_backend testing = {
    .abi_version = EC_BACKEND_ABI_VERSION, .struct_size = sizeof testing, .id = "Testing",
    .init = open_delegate, .execute = execute, .destroy = destroy, .set_option = set_option,
    .get_option = get_option, .option_keys = keys, .report = report, .repeat = repeat};
/* A backend that predates options. */
static const ec_backend old = {
    .abi_version = EC_BACKEND_ABI_VERSION, .struct_size = offsetof(ec_backend, set_option),
    .id = "OldTest", .init = open_delegate, .execute = execute, .destroy = destroy};

#define INSTRUCTIONS "execution_plan[0].chains[0].instructions"

/* Replaces the id of the sample's delegate by one of the same length. */
static void make_program(ec_fb_writer *b, const char *id) {
  ec_sample_pte(b);
  ec_text_set(b, ec_pte_schema(), INSTRUCTIONS, ADD_AND_CALL);
  uint8_t *name = b->data + ec_text_find(b, ec_pte_schema(), "execution_plan[0].delegates[0].id");
  memcpy(name + 4, id, ec_read_u32(name));
}

/* Passes another value of the program to the delegate's call. */
static void set_argument(ec_fb_writer *b, uint32_t value) {
  ec_text_set(b, ec_pte_schema(), INSTRUCTIONS "[1].instr_args.args[0]", value);
}

static ec_status load_made(ec_fb_writer *b, const ec_backend_options *options, ec_program **program,
                           ec_method **m, ec_error *err) {
  const ec_program_options strict = {EC_VERIFY_INTERNAL_CONSISTENCY, false};
  const ec_method_options with = {.backends = options, .backend_count = options != NULL};
  ec_source file;
  *program = NULL;
  EC_TRY(ec_backend_register(&testing, err));
  EC_TRY(ec_backend_register(&old, err));
  EC_TRY(ec_source_open_buffer(&file, b->data, b->size, NULL, NULL, err));
  EC_TRY(ec_program_open(&strict, &file, NULL, 0, program, err));
  return ec_method_load(*program, "forward", &with, m, err);
}

static ec_status load(ec_fb_writer *b, const char *id, const ec_backend_options *options,
                      ec_program **program, ec_method **m, ec_error *err) {
  make_program(b, id);
  return load_made(b, options, program, m, err);
}

static ec_status call(ec_method *m, ec_trace *trace, ec_error *err) {
  float items[ITEMS] = {1, 2, 3, 4};
  const int64_t sizes[] = {2, 2}, strides[] = {8, 4};
  const ec_array array = {items, EC_FLOAT32, 2, sizes, strides};
  EC_TRY(ec_method_lock(m, NULL, err));
  ec_method_set_trace(m, trace);
  ec_status status = ec_method_bind_input(m, 0, &array, err);
  if (status == EC_OK) status = ec_method_execute(m, err);
  ec_method_unlock(m);
  return status;
}

/* ---- options ----------------------------------------------------------------------------- */

static ec_status load_with(const char *id, const ec_backend_options *options, ec_error *err) {
  EC_BUILD(b);
  ec_program *program = NULL;
  ec_method *m = NULL;
  ec_status status = load(&b, id, options, &program, &m, err);
  ec_method_free(m);
  ec_program_free(program);
  return status;
}

void ec_test_options_of_methods(ec_test *t) {
  ec_error err = {0};
  const ec_backend_option items[] = {{"text", EC_BACKEND_STRING, {.string = "words"}},
                                     {"number", EC_BACKEND_INT, {.i = 3}}};
  const ec_backend_option wrong[] = {{"bad", EC_BACKEND_BOOL, {.b = true}}};
  const ec_backend_options good = {"Testing", items, 2}, bad = {"Testing", wrong, 1};
  const ec_backend_options other = {"Other", items, 2}, early = {"OldTest", items, 2};
  const ec_backend_options none = {"OldTest", NULL, 0};
  EC_CHECK_OK(t, load_with("Testing", &good, &err), &err);
  EC_CHECK(t, seen.options == 2);
  EC_CHECK_FAILS(t, load_with("Testing", &bad, &err), &err, EC_INVALID_ARGUMENT, "'bad'");
  EC_CHECK_FAILS(t, load_with("Testing", &other, &err), &err, EC_INVALID_ARGUMENT,
                 "options for backend 'Other', but the method's delegates are of 'Testing'");
  EC_CHECK_FAILS(t, load_with("OldTest", &early, &err), &err, EC_NOT_SUPPORTED,
                 "'OldTest' has no options");
  EC_CHECK_OK(t, load_with("OldTest", &none, &err), &err);
}

static void check_reading(ec_test *t) {
  ec_error err = {0};
  ec_backend_option got = {.key = "level"};
  EC_CHECK_OK(t, ec_option_get("Testing", &got, &err), &err);
  EC_CHECK(t, got.kind == EC_BACKEND_INT && got.as.i == 5);
  memcpy(seen.name, "a name", 7);
  got.key = "name";
  EC_CHECK_OK(t, ec_option_get("Testing", &got, &err), &err);
  EC_CHECK(t, got.kind == EC_BACKEND_STRING && strcmp(got.as.string, "a name") == 0);
  EC_CHECK(t, got.as.string != seen.name);
  ec_free((void *)(uintptr_t)got.as.string);
  got.key = "odd";
  seen.odd_kind = EC_BACKEND_TENSOR;
  EC_CHECK_FAILS(t, ec_option_get("Testing", &got, &err), &err, EC_INTERNAL, "of kind 1");
  EC_CHECK_FAILS(t, ec_option_get("OldTest", &got, &err), &err, EC_NOT_SUPPORTED, "can be read");
}

void ec_test_options_of_the_process(ec_test *t) {
  ec_error err = {0};
  const ec_backend_option level = {"level", EC_BACKEND_INT, {.i = 5}};
  const ec_backend_option text = {"level", EC_BACKEND_STRING, {.string = "5"}};
  const ec_backend_option quiet = {"quiet", EC_BACKEND_BOOL, {.b = true}};
  const ec_backend_option unknown = {"speed", EC_BACKEND_BOOL, {.b = true}};
  EC_CHECK_OK(t, ec_backend_register(&testing, &err), &err);
  EC_CHECK_OK(t, ec_backend_register(&old, &err), &err);
  EC_CHECK_OK(t, ec_option_set("Testing", &level, &err), &err);
  EC_CHECK_OK(t, ec_option_set("Testing", &level, NULL), &err);
  EC_CHECK_FAILS(t, ec_option_set("Testing", &text, &err), &err, EC_INVALID_ARGUMENT,
                 "Testing: 'level' must be an int");
  EC_CHECK_FAILS(t, ec_option_set("Testing", &quiet, &err), &err, EC_NOT_SUPPORTED,
                 "Testing: option 'quiet'");
  EC_CHECK_FAILS(t, ec_option_set("Testing", &unknown, &err), &err, EC_NOT_FOUND,
                 "has no option 'speed'; it has 'level', 'name'");
  EC_CHECK_FAILS(t, ec_option_set("Nobody", &level, &err), &err, EC_NOT_FOUND, "'Nobody'");
  EC_CHECK_FAILS(t, ec_option_set("OldTest", &level, &err), &err, EC_NOT_SUPPORTED, "can be set");
  check_reading(t);
}

/* ---- host functions ----------------------------------------------------------------------- */

static void fill_piece(void *user, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) ((float *)user)[i] = (float)i;
}

static uint32_t use_memory(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  const void *data;
  size_t size;
  float *scratch = host->scratch(call, ITEMS * sizeof *scratch), *block = host->alloc(64);
  if (!scratch || !block) return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  host->parallel_for(call, ITEMS, 1, fill_piece, scratch);
  memcpy(arg->as.tensor.data, scratch, ITEMS * sizeof *scratch);
  host->free(block);
  if (host->named_data(call, "weights", &data, &size) != EC_BACKEND_OK || size != 16)
    return host->fail(call, EC_BACKEND_NOT_FOUND, "no data named weights");
  host->release_pages(call, data, size);
  if (host->named_data(call, "nothing", &data, &size) != EC_BACKEND_NOT_FOUND)
    return host->fail(call, EC_BACKEND_INTERNAL, "no data is named 'nothing'");
  return host->threadpool(call) || true ? EC_BACKEND_OK : EC_BACKEND_INTERNAL;
}

static uint32_t same_shape(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  return host->resize(call, arg, 2, (int64_t[]){2, 2});
}

static uint32_t other_shape(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  return host->resize(call, arg, 2, (int64_t[]){3, 2});
}

static uint32_t resize_a_number(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  (void)arg;
  ec_backend_arg number = {.kind = EC_BACKEND_INT};
  return host->resize(call, &number, 0, NULL);
}

static uint32_t resize_a_constant(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  ec_backend_arg constant = *arg;
  constant.as.tensor.writable = false;
  return host->resize(call, &constant, 2, (int64_t[]){2, 2});
}

static uint32_t open_garbage(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  ec_host_program *nested = NULL;
  return host->program_open(call, arg->as.tensor.data, arg->as.tensor.nbytes, "forward", &nested);
}

static uint32_t report_to_trace(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  const uint32_t wants = host->trace_wants(call);
  const ec_backend_node node = {4, "a node", 100};
  ec_backend_tensor odd = arg->as.tensor, longer = arg->as.tensor;
  if (wants != (EC_BACKEND_TRACE_TIMES | EC_BACKEND_TRACE_VALUES | EC_BACKEND_TRACE_INPUTS))
    return host->fail(call, EC_BACKEND_INTERNAL, "the trace wants %u", (unsigned)wants);
  odd.dtype = -1;
  longer.nbytes = 1; /* fewer than the sizes need: dropped */
  host->trace_node(call, &node);
  host->trace_value(call, 4, &arg->as.tensor);
  host->trace_value(call, 4, &odd);
  host->trace_value(call, 4, &longer);
  host->trace_input(call, 4, &arg->as.tensor);
  return EC_BACKEND_OK;
}

static uint32_t expect_no_trace(const ec_host *host, ec_host_call *call, ec_backend_arg *arg) {
  (void)arg;
  return host->trace_wants(call) ? EC_BACKEND_INTERNAL : EC_BACKEND_OK;
}

static const struct {
  uint32_t (*work)(const ec_host *host, ec_host_call *call, ec_backend_arg *arg);
  ec_status status;
  const char *says;
} works[] = {
    {use_memory, EC_OK, ""},
    {same_shape, EC_OK, ""},
    {expect_no_trace, EC_OK, ""},
    {other_shape, EC_NOT_SUPPORTED, "Testing"},
    {resize_a_number, EC_INVALID_ARGUMENT, "an output is a Int, expected a tensor"},
    {resize_a_constant, EC_INVALID_PROGRAM, "an output is a constant"},
    {open_garbage, EC_INVALID_ARGUMENT, "nested program"},
};

static void add_figure(void *user, const char *name, int64_t value) {
  if (strcmp(name, "figure") == 0) *(int64_t *)user += value;
}

void ec_test_delegate_services(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  ec_method *m = NULL;
  int64_t figure = 0;
  EC_CHECK_OK(t, load(&b, "Testing", NULL, &program, &m, &err), &err);
  for (size_t i = 0; m && i < sizeof works / sizeof works[0]; i++) {
    seen.work = works[i].work;
    if (works[i].status == EC_OK) EC_CHECK_OK(t, call(m, NULL, &err), &err);
    else EC_CHECK_FAILS(t, call(m, NULL, &err), &err, works[i].status, works[i].says);
  }
  seen.work = use_memory;
  EC_CHECK_OK(t, call(m, NULL, &err), &err); /* unchanged after an error */
  const float *result = ec_method_output(m, 0)->as.tensor->data;
  EC_CHECK(t, result[0] == 0 && result[3] == 3);
  EC_CHECK(t, ec_method_delegate_count(m) == 1);
  EC_CHECK(t, strcmp(ec_method_delegate_id(m, 0), "Testing") == 0);
  ec_method_report(m, 0, add_figure, &figure);
  EC_CHECK(t, figure == 7);
  ec_method_free(m);
  ec_program_free(program);
}

void ec_test_delegate_traces(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  ec_method *m = NULL;
  size_t nodes = 0, values = 0;
  ec_trace *trace = ec_trace_new(EC_TRACE_VALUES | EC_TRACE_RANGES, SIZE_MAX);
  EC_CHECK_OK(t, load(&b, "Testing", NULL, &program, &m, &err), &err);
  seen.work = report_to_trace;
  EC_CHECK_OK(t, call(m, trace, &err), &err);
  for (const ec_event *e = ec_trace_first(trace); e; e = e->next) {
    if (strcmp(e->name, "a node") != 0) continue;
    nodes++;
    for (const ec_event_value *v = e->values; v; v = v->next) values++;
  }
  EC_CHECK(t, nodes == 1 && values == 2);
  ec_method_set_trace(m, NULL);
  ec_trace_free(trace);
  ec_method_free(m);
  ec_program_free(program);
}

/* ---- binding ----------------------------------------------------------------------------- */

void ec_test_bind_refuses(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  ec_method *m = NULL;
  float items[ITEMS] = {0};
  const int64_t sizes[] = {2, 2}, wide[] = {2, 3}, strides[] = {8, 4};
  const ec_array good = {items, EC_FLOAT32, 2, sizes, strides};
  ec_array dtype = good, rank = good, shape = good;
  dtype.dtype = EC_INT32;
  rank.rank = 1;
  shape.sizes = wide;
  seen.work = NULL;
  EC_CHECK_OK(t, load(&b, "Testing", NULL, &program, &m, &err), &err);
  EC_CHECK_OK(t, ec_method_lock(m, NULL, &err), &err);
  EC_CHECK_FAILS(t, ec_method_execute(m, &err), &err, EC_INVALID_ARGUMENT, "input 0");
  EC_CHECK_FAILS(t, ec_method_bind_input(m, 1, &good, &err), &err, EC_INVALID_ARGUMENT,
                 "has 1 inputs, input 1 does not exist");
  EC_CHECK_FAILS(t, ec_method_bind_input(m, 0, &dtype, &err), &err, EC_INVALID_ARGUMENT,
                 "dtype int32, expected float32");
  EC_CHECK_FAILS(t, ec_method_bind_input(m, 0, &rank, &err), &err, EC_INVALID_ARGUMENT,
                 "has 1 dimensions, expected 2");
  EC_CHECK_FAILS(t, ec_method_bind_input(m, 0, &shape, &err), &err, EC_NOT_SUPPORTED, "input 0");
  EC_CHECK_FAILS(t, ec_method_bind_none(m, 0, &err), &err, EC_INVALID_ARGUMENT,
                 "found None, expected Tensor of float32");
  EC_CHECK_FAILS(t, ec_method_bind_string(m, 0, "x", &err), &err, EC_INVALID_ARGUMENT,
                 "found a string");
  const ec_scalar one = {EC_KIND_INT, {.i = 1}};
  EC_CHECK_FAILS(t, ec_method_bind_scalar(m, 0, one, &err), &err, EC_INVALID_ARGUMENT, "found Int");
  EC_CHECK_FAILS(t, ec_method_bind_output(m, 0, items, 4, &err), &err, EC_INVALID_ARGUMENT,
                 "4 bytes, expected 16");
  EC_CHECK_FAILS(t, ec_method_bind_output(m, 1, items, 4, &err), &err, EC_INVALID_ARGUMENT,
                 "has no fixed shape");
  EC_CHECK_FAILS(t, ec_method_lock(m, NULL, &err), &err, EC_INVALID_STATE, "in this thread");
  ec_method_unlock(m);
  ec_method_free(m);
  ec_program_free(program);
}

/* ---- arguments of every kind, locks, stack traces ------------------------------------------ */

static ec_status call_with(uint32_t value, ec_error *err) {
  EC_BUILD(b);
  ec_program *program = NULL;
  ec_method *m = NULL;
  make_program(&b, "Testing");
  set_argument(&b, value);
  seen.work = NULL;
  ec_status status = load_made(&b, NULL, &program, &m, err);
  if (status == EC_OK) status = call(m, NULL, err);
  ec_method_free(m);
  ec_program_free(program);
  return status;
}

void ec_test_delegate_arguments(ec_test *t) {
  static const uint32_t kinds[] = {EC_BACKEND_TENSOR, EC_BACKEND_TENSOR, EC_BACKEND_NONE,
                                   EC_BACKEND_INT,    EC_BACKEND_BOOL,   EC_BACKEND_STRING};
  ec_error err = {0};
  for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    EC_CHECK_OK(t, call_with(i, &err), &err);
    EC_CHECK(t, seen.kind == kinds[i]);
  }
  EC_CHECK_FAILS(t, call_with(6, &err), &err, EC_NOT_SUPPORTED, "argument 0 of a delegate is a");
  EC_CHECK_FAILS(t, call_with(99, &err), &err, EC_INVALID_PROGRAM, "99");
}

static ec_status give_up(void *user, ec_error *err) {
  ++*(int *)user;
  return ec_fail(err, EC_INVALID_STATE, "given up");
}

typedef struct visitor {
  ec_method *m;
  bool locked;
  int asked;
  ec_status status;
  ec_error err;
} visitor;

static void *visit(void *user) {
  visitor *v = user;
  const ec_interrupt interrupt = {give_up, &v->asked};
  v->locked = ec_method_try_lock(v->m);
  v->status = ec_method_lock(v->m, &interrupt, &v->err);
  return NULL;
}

/* Another thread cannot get a method that is in use, and can stop waiting for it. */
void ec_test_method_locks(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  visitor v = {0};
  pthread_t thread;
  EC_CHECK_OK(t, load(&b, "Testing", NULL, &program, &v.m, &err), &err);
  EC_CHECK(t, ec_method_try_lock(v.m) && ec_method_is_mine(v.m));
  EC_CHECK(t, pthread_create(&thread, NULL, visit, &v) == 0 && pthread_join(thread, NULL) == 0);
  EC_CHECK(t, !v.locked && v.asked == 1);
  EC_CHECK_FAILS(t, v.status, &v.err, EC_INVALID_STATE, "given up");
  ec_method_unlock(v.m);
  EC_CHECK(t, !ec_method_is_mine(v.m));
  ec_method_free(v.m);
  ec_program_free(program);
}

void ec_test_inspect_frames(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  ec_method *m = NULL;
  ec_inspection s;
  EC_CHECK_OK(t, load(&b, "Testing", NULL, &program, &m, &err), &err);
  EC_CHECK_OK(t, ec_inspection_init(program, 0, &s, &err), &err);
  const ec_inspect_instr *row = &s.chains[0].instrs[0];
  EC_CHECK(t, s.chain_count == 1 && s.chains[0].count == ADD_AND_CALL && row->frame_count == 1);
  EC_CHECK(t, strcmp(row->frames[0].file, "model.py") == 0);
  EC_CHECK(t, strcmp(row->frames[0].context, "x + y") == 0);
  ec_inspection_deinit(&s);
  ec_method_free(m);
  ec_program_free(program);
}

/* ---- repeated calls ------------------------------------------------------------------------ */

enum { VARIABLE, CONSTANT }; /* values of the sample: its input and output, and a constant */

static void check_counts(ec_test *t, size_t executes, size_t repeats) {
  EC_CHECK(t, seen.executes == executes && seen.repeats == repeats);
  seen.executes = seen.repeats = 0;
}

/* Loads the sample with an argument of its delegate, and counts calls from zero. */
static ec_status load_counted(ec_fb_writer *b, uint32_t argument, ec_program **program,
                              ec_method **m, ec_error *err) {
  make_program(b, "Testing");
  set_argument(b, argument);
  seen = (probe){0};
  return load_made(b, NULL, program, m, err);
}

/* An execute that succeeded is repeated, but for traces and backends that refuse. */
void ec_test_delegate_repeats(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  ec_method *m = NULL;
  ec_trace *trace = ec_trace_new(EC_TRACE_VALUES, SIZE_MAX);
  EC_CHECK_OK(t, load_counted(&b, CONSTANT, &program, &m, &err), &err);
  for (size_t i = 0; i < 3; i++) EC_CHECK_OK(t, call(m, NULL, &err), &err);
  check_counts(t, 1, 2);
  EC_CHECK_OK(t, call(m, trace, &err), &err);
  check_counts(t, 1, 0);
  for (size_t i = 0; i < 2; i++) EC_CHECK_OK(t, call(m, NULL, &err), &err);
  check_counts(t, 1, 1);
  seen.repeat_status = EC_BACKEND_NOT_SUPPORTED;
  EC_CHECK_OK(t, call(m, NULL, &err), &err);
  check_counts(t, 1, 1);
  seen.repeat_status = EC_BACKEND_INTERNAL;
  EC_CHECK_FAILS(t, call(m, NULL, &err), &err, EC_INTERNAL, "Testing: cannot repeat");
  check_counts(t, 0, 1);
  seen.repeat_status = EC_BACKEND_OK;
  EC_CHECK_OK(t, call(m, NULL, &err), &err);
  check_counts(t, 1, 0);
  ec_method_set_trace(m, NULL);
  ec_trace_free(trace);
  ec_method_free(m);
  ec_program_free(program);
}

/* The caller's arrays may be elsewhere in each call. */
void ec_test_delegate_of_arrays(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_program *program = NULL;
  ec_method *m = NULL;
  EC_CHECK_OK(t, load_counted(&b, VARIABLE, &program, &m, &err), &err);
  for (size_t i = 0; i < 3; i++) EC_CHECK_OK(t, call(m, NULL, &err), &err);
  check_counts(t, 3, 0);
  ec_method_free(m);
  ec_program_free(program);
}
