/* runtime/: a whole program from file to result, and the same with each allocation refused. The
 * package's example is found relative to csrc/, where `make check` runs. */
#include <pthread.h>

#include "format/source.h"
#include "runtime/describe.h"
#include "runtime/method.h"
#include "testing/alloc_fail.h"
#include "testing/sample.h"
#include "testing/test.h"

static const char example[] = "../executorch_c/examples/digits.pte";

enum { PIXELS = 64, DIGITS = 10 };

static ec_status run_digits(const ec_program *program, ec_trace *trace, float *result,
                            ec_error *err) {
  static float image[PIXELS];
  const int64_t sizes[] = {1, 1, 8, 8}, strides[] = {256, 256, 32, 4};
  const ec_array array = {image, EC_FLOAT32, 4, sizes, strides};
  ec_method_options options = {false};
  ec_method *m = NULL;
  EC_TRY(ec_method_load(program, "forward", &options, &m, err));
  for (int i = 0; i < PIXELS; i++) image[i] = (float)(i % 17) / 16;
  EC_TRY(ec_method_lock(m, NULL, err));
  ec_method_set_trace(m, trace);
  ec_status status = ec_method_bind_input(m, 0, &array, err);
  if (status == EC_OK) status = ec_method_execute(m, err);
  if (status == EC_OK) memcpy(result, ec_method_output(m, 0)->as.tensor->data, DIGITS * 4);
  ec_method_unlock(m);
  ec_method_free(m);
  return status;
}

static ec_status load_and_run(ec_trace *trace, float *result, ec_error *err) {
  ec_program_options options = {EC_VERIFY_INTERNAL_CONSISTENCY, false};
  ec_source file;
  ec_program *program = NULL;
  EC_TRY(ec_source_open_file(&file, example, EC_MLOCK_NONE, err));
  EC_TRY(ec_program_open(&options, &file, NULL, 0, &program, err));
  ec_status status = run_digits(program, trace, result, err);
  ec_program_free(program);
  return status;
}

/* ---- each allocation refused in turn ------------------------------------------------------- */

enum { SMALL = 2, LARGE = 5 };

/* A program, from opening the file to freeing it. */
typedef struct session {
  ec_program *program;
  ec_method *method;
  ec_trace *trace;
  float few[SMALL * DIGITS], many[LARGE * DIGITS];
} session;

static ec_status open_program(session *s, ec_error *err) {
  ec_program_options options = {EC_VERIFY_INTERNAL_CONSISTENCY, false};
  ec_source file;
  EC_TRY(ec_source_open_file(&file, example, EC_MLOCK_NONE, err));
  return ec_program_open(&options, &file, NULL, 0, &s->program, err);
}

static ec_status describe(session *s, ec_error *err) {
  ec_program_info program;
  ec_method_info method;
  EC_TRY(ec_program_info_init(s->program, &program, err));
  ec_program_info_deinit(&program);
  EC_TRY(ec_program_describe(s->program, 0, &method, err));
  ec_method_info_deinit(&method);
  return EC_OK;
}

static ec_status load_method(session *s, ec_error *err) {
  ec_method_options options = {false};
  return ec_method_load(s->program, "forward", &options, &s->method, err);
}

/* Images with adjacent columns, which must be copied. */
static ec_status call(session *s, int64_t rows, float *result, ec_error *err) {
  float images[LARGE * PIXELS];
  const int64_t sizes[] = {rows, 1, 8, 8}, strides[] = {256, 256, 4, 32};
  const ec_array array = {images, EC_FLOAT32, 4, sizes, strides};
  for (int i = 0; i < LARGE * PIXELS; i++) images[i] = (float)(i % 17) / 16;
  EC_TRY(ec_method_lock(s->method, NULL, err));
  ec_status status = ec_method_bind_input(s->method, 0, &array, err);
  if (status == EC_OK) status = ec_method_execute(s->method, err);
  if (status == EC_OK) {
    const ec_tensor *output = ec_method_output(s->method, 0)->as.tensor;
    memcpy(result, output->data, ec_tensor_nbytes(output));
  }
  ec_method_unlock(s->method);
  return status;
}

static ec_status call_few(session *s, ec_error *err) { return call(s, SMALL, s->few, err); }
static ec_status call_many(session *s, ec_error *err) { return call(s, LARGE, s->many, err); }

static ec_status reset(session *s, ec_error *err) {
  EC_TRY(ec_method_lock(s->method, NULL, err));
  ec_method_reset(s->method);
  ec_method_unlock(s->method);
  return EC_OK;
}

static ec_status begin_trace(session *s, ec_error *err) {
  s->trace = ec_trace_new(EC_TRACE_VALUES | EC_TRACE_RANGES, 1 << 20);
  if (!s->trace) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a trace");
  EC_TRY(ec_method_lock(s->method, NULL, err));
  ec_method_set_trace(s->method, s->trace);
  ec_method_unlock(s->method);
  return EC_OK;
}

static ec_status (*const steps[])(session *s, ec_error *err) = {
    open_program, describe, load_method, call_few, call_many, reset, call_many, begin_trace,
    call_few, call_many,
};

/* Runs all steps. A step that fails for lack of memory says so, and succeeds once there is memory.
 * Returns the number of failed steps. */
static int run_session(ec_test *t, session *s, ec_alloc_fail *memory) {
  ec_error err = {0};
  int failed = 0;
  memset(s, 0, sizeof *s);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    ec_status status = steps[i](s, &err);
    if (status != EC_OK) {
      failed++;
      EC_CHECK_FAILS(t, status, &err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
      memory->fail_at = 0;
      status = steps[i](s, &err);
    }
    EC_CHECK_OK(t, status, &err);
    if (status != EC_OK) break;
  }
  ec_method_free(s->method);
  ec_trace_free(s->trace);
  ec_program_free(s->program);
  return failed;
}

/* Refuses one allocation, or all from one on, until none is left to refuse. */
static void refuse_each(ec_test *t, const session *whole, int onwards) {
  size_t n = 0, failed = 0;
  ec_alloc_fail state;
  do {
    session s;
    ec_alloc_fail_install(&state);
    state.fail_at = ++n;
    state.onwards = onwards;
    failed += (size_t)run_session(t, &s, &state);
    if (state.alive)
      ec_test_fail(t, __FILE__, __LINE__, "allocation %zu: %zu left", n, state.alive);
    EC_CHECK(t, memcmp(s.few, whole->few, sizeof s.few) == 0);
    EC_CHECK(t, memcmp(s.many, whole->many, sizeof s.many) == 0);
  } while (state.requests >= n && n < 10000);
  EC_CHECK(t, failed > 10 && n < 10000);
}

void ec_test_runtime_without_memory(ec_test *t) {
  ec_alloc_fail plenty = {.fail_at = 0};
  session whole;
  EC_CHECK(t, run_session(t, &whole, &plenty) == 0);
  refuse_each(t, &whole, 0);
  refuse_each(t, &whole, 1);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 8 };

typedef struct thread_work {
  pthread_t thread;
  session s; /* of one program; half of the threads share a method */
  bool own;  /* a private method, loaded and freed repeatedly */
  int failures;
} thread_work;

static void *load_and_call(void *user) {
  thread_work *w = user;
  ec_error err = {0};
  for (int i = 0; i < TURNS; i++) {
    w->failures += w->own && load_method(&w->s, &err) != EC_OK;
    w->failures += call(&w->s, i % 2 ? SMALL : LARGE, i % 2 ? w->s.few : w->s.many, &err) != EC_OK;
    if (w->own) ec_method_free(w->s.method);
  }
  return NULL;
}

/* One program, private methods of threads, and a shared one; also for ThreadSanitizer. */
void ec_test_runtime_many_threads(ec_test *t) {
  ec_error err = {0};
  session s = {0};
  thread_work work[THREADS];
  EC_CHECK_OK(t, open_program(&s, &err), &err);
  EC_CHECK_OK(t, load_method(&s, &err), &err);
  for (size_t i = 0; i < THREADS; i++) {
    work[i] = (thread_work){.s = s, .own = i % 2};
    pthread_create(&work[i].thread, NULL, load_and_call, &work[i]);
  }
  for (size_t i = 0; i < THREADS; i++) pthread_join(work[i].thread, NULL);
  for (size_t i = 0; i < THREADS; i++) {
    EC_CHECK(t, work[i].failures == 0);
    EC_CHECK(t, memcmp(&work[i].s.few, &work[0].s.few, sizeof s.few) == 0);
    EC_CHECK(t, memcmp(&work[i].s.many, &work[0].s.many, sizeof s.many) == 0);
  }
  EC_CHECK(t, work[0].s.many[0] != 0 || work[0].s.many[1] != 0);
  ec_method_free(s.method);
  ec_program_free(s.program);
}

/* Counts events, and reads all their data. */
static size_t read_events(const ec_trace *trace, uint64_t *sum) {
  size_t count = 0;
  for (const ec_event *e = ec_trace_first(trace); e; e = e->next, count++) {
    *sum += strlen(e->name) + e->duration;
    for (const ec_event_value *v = e->values; v; v = v->next)
      for (size_t i = 0; v->data && i < v->nbytes; i++) *sum += ((const uint8_t *)v->data)[i];
  }
  return count;
}

/* Results are equal for every limit; dropped data is counted. */
void ec_test_runtime_trace(ec_test *t) {
  ec_error err = {0};
  uint64_t sum = 0;
  size_t events = 0;
  float whole[DIGITS] = {0}, result[DIGITS] = {0};
  EC_CHECK_OK(t, load_and_run(NULL, whole, &err), &err);
  for (size_t bound = 1 << 17; bound; bound = bound > 6000 ? bound - 6000 : bound / 2) {
    ec_trace *trace = ec_trace_new(EC_TRACE_VALUES | EC_TRACE_RANGES, bound);
    EC_CHECK_OK(t, load_and_run(trace, result, &err), &err);
    EC_CHECK(t, memcmp(whole, result, sizeof whole) == 0);
    size_t count = read_events(trace, &sum);
    if (!events) {
      events = count;
      EC_CHECK(t, count > 10 && ec_trace_dropped_values(trace) == 0);
    }
    EC_CHECK(t, count + ec_trace_dropped_events(trace) == events);
    ec_trace_free(trace);
  }
  EC_CHECK(t, sum > 0);
}

/* Copies of results have a separate limit, below which all events are kept. */
void ec_test_runtime_trace_data(ec_test *t) {
  ec_error err = {0};
  float result[DIGITS];
  for (size_t bound = 0; bound < 40000; bound += 5000) {
    ec_trace *trace = ec_trace_new(EC_TRACE_VALUES, SIZE_MAX);
    size_t kept = 0;
    ec_trace_bound_data(trace, bound);
    EC_CHECK_OK(t, load_and_run(trace, result, &err), &err);
    for (const ec_event *e = ec_trace_first(trace); e; e = e->next)
      for (const ec_event_value *v = e->values; v; v = v->next) kept += v->data ? v->nbytes : 0;
    EC_CHECK(t, kept <= bound && ec_trace_dropped_events(trace) == 0);
    EC_CHECK(t, bound || ec_trace_dropped_values(trace) > 0);
    ec_trace_free(trace);
  }
}

/* The hand-made program of the format tests is valid but calls a missing operator. */
void ec_test_runtime_refuses_sample(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_source file;
  ec_program *program = NULL;
  ec_method *m = NULL;
  ec_program_options options = {EC_VERIFY_INTERNAL_CONSISTENCY, false};
  ec_method_options none = {false};
  ec_sample_pte(&b);
  EC_CHECK_OK(t, ec_source_open_buffer(&file, b.data, b.size, NULL, NULL, &err), &err);
  EC_CHECK_OK(t, ec_program_open(&options, &file, NULL, 0, &program, &err), &err);
  EC_CHECK_FAILS(t, ec_method_load(program, "forward", &none, &m, &err), &err, EC_NOT_FOUND,
                 "backend 'Backend' is not registered");
  EC_CHECK_FAILS(t, ec_method_load(program, "backward", &none, &m, &err), &err, EC_NOT_FOUND,
                 "no method 'backward'; the program has 'forward'");
  ec_program_free(program);
}
