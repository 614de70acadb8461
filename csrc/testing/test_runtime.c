/* runtime/: a whole program from file to result, and the same with each allocation refused. The
 * example of the package is found relative to csrc/, where `make check` runs. */
#include "format/source.h"
#include "runtime/method.h"
#include "testing/alloc_fail.h"
#include "testing/sample.h"
#include "testing/test.h"

static const char example[] = "../executorch_c/examples/digits.pte";

enum { PIXELS = 64, DIGITS = 10 };

static ec_status run(const ec_program *program, ec_trace *trace, float *result, ec_error *err) {
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
  ec_status status = run(program, trace, result, err);
  ec_program_free(program);
  return status;
}

void ec_test_runtime_without_memory(ec_test *t) {
  ec_alloc_fail state;
  ec_error err = {0};
  float whole[DIGITS] = {0}, result[DIGITS] = {0};
  EC_CHECK_OK(t, load_and_run(NULL, whole, &err), &err);
  size_t n = 0;
  ec_status status = EC_MEMORY_ALLOCATION_FAILED;
  while (status != EC_OK && n < 10000) {
    ec_alloc_fail_install(&state);
    state.fail_at = ++n;
    status = load_and_run(NULL, result, &err);
    if (state.alive)
      ec_test_fail(t, __FILE__, __LINE__, "allocation %zu: %zu left", n, state.alive);
    if (status == EC_OK) break;
    EC_CHECK_FAILS(t, status, &err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  }
  EC_CHECK(t, n > 10 && n < 10000); /* some were refused, and it ended by itself */
  EC_CHECK(t, memcmp(whole, result, sizeof whole) == 0);
}

/* Counts events, and reads all data that they have. */
static size_t read_events(const ec_trace *trace, uint64_t *sum) {
  size_t count = 0;
  for (const ec_event *e = ec_trace_first(trace); e; e = e->next, count++) {
    *sum += strlen(e->name) + e->duration;
    for (const ec_event_value *v = e->values; v; v = v->next)
      for (size_t i = 0; v->data && i < v->nbytes; i++) *sum += ((const uint8_t *)v->data)[i];
  }
  return count;
}

/* Results are the same with every bound; what does not fit is counted. */
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

/* Copies of results have a bound of their own, below which all events are kept. */
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

/* The hand-made program of the format tests is whole but calls what is not there. */
void ec_test_runtime_refuses_sample(ec_test *t) {
  ec_build b;
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
