/* Two methods of one file, call by call. */
#include "testing/fuzz_agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/template.h"
#include "testing/fuzz_order.h"

#define EC_TEMPLATE "testing/fuzz_agree.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

enum { CALLS = 2, TRACE_LIMIT = 1 << 20, DRAWS = 4 };

/* An error from which results differ. It is relative to the largest element of the output, which is
 * generous: a wrong element is off by more, rounding by less. */
#define MAX_ERROR 1e-3
#define MAX_HALF_ERROR 0.1
/* A difference is one if it is this many times what rounding of the inputs changes. */
#define NOISE_FACTOR 4
/* The same of inputs that move by half a step of int8, in programs with delegates: the first one
 * rounds smaller changes away, and values between two of them may be ties. */
#define COARSE_FACTOR 2

typedef struct way {
  const char *name;
  bool is_exact, traced, reference;
  ec_delegation delegation;
  const char *without[3]; /* passes that change results by rounding */
} way;

static const way base = {"without passes", true, false, false, EC_DELEGATE_NEVER, {NULL}};
static const way ways[] = {
    {"with passes", true, false, false, EC_DELEGATE_NEVER, {"fuse", "attend"}},
    {"traced", true, true, false, EC_DELEGATE_NEVER, {NULL}},
    {"all passes", false, false, false, EC_DELEGATE_NEVER, {NULL}},
    {"reference kernels", false, false, true, EC_DELEGATE_NEVER, {NULL}},
    {"delegated at load", false, false, false, EC_DELEGATE_ALWAYS, {NULL}},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static uint32_t find_passes(const char *const *names) {
  uint32_t result = 0;
  const char *name, *purpose;
  for (size_t i = 0; (name = ec_pass_name(i, &purpose)) != NULL; i++)
    for (const char *const *one = names; *one; one++)
      if (!strcmp(name, *one)) result |= 1u << i;
  return result;
}

static ec_status load(ec_fuzz *f, const ec_program *program, size_t index, const way *w,
                      ec_method **out) {
  const ec_method_options options = {
      .reference_kernels = w->reference, .delegation = w->delegation, .seeded = true, .seed = 1,
      .skipped_passes = w == &base ? UINT32_MAX : find_passes(w->without)};
  const char *name = ec_program_method_name(program, index);
  const ec_status status = ec_method_load(program, name, &options, out, &f->err);
  ec_fuzz_ok(f, status, "method_load");
  return status;
}

/* ---- comparing --------------------------------------------------------------------------- */

static double float_error(const ec_tensor *a, const ec_tensor *b, bool is_exact) {
  switch (ec_tensor_dtype(a)) {
  case EC_FLOAT16:
    return error_float16(a->data, b->data, a->numel, is_exact) * (MAX_ERROR / MAX_HALF_ERROR);
  case EC_BFLOAT16:
    return error_bfloat16(a->data, b->data, a->numel, is_exact) * (MAX_ERROR / MAX_HALF_ERROR);
  case EC_FLOAT32: return error_float32(a->data, b->data, a->numel, is_exact);
  case EC_FLOAT64: return error_float64(a->data, b->data, a->numel, is_exact);
  case EC_COMPLEX64: return error_float32(a->data, b->data, 2 * a->numel, is_exact);
  case EC_COMPLEX128: return error_float64(a->data, b->data, 2 * a->numel, is_exact);
  default: return INFINITY;
  }
}

static double tensor_error(const ec_tensor *a, const ec_tensor *b, bool is_exact) {
  if (a->dtype != b->dtype || !ec_tensor_same_sizes(a, b) || !a->data != !b->data) return INFINITY;
  if (!a->data || !memcmp(a->data, b->data, ec_tensor_nbytes(a))) return 0;
  return float_error(a, b, is_exact);
}

static double value_error(const ec_value *a, const ec_value *b, bool is_exact, int depth);

static double list_error(const ec_value *a, const ec_value *b, bool is_exact, int depth) {
  double most = 0;
  if (a->count != b->count) return INFINITY;
  for (uint32_t i = 0; i < a->count; i++)
    most = fmax(most, value_error(a->as.items[i], b->as.items[i], is_exact, depth));
  return most;
}

/* Returns the largest error, infinity for integers, shapes and kinds that are not equal. */
static double value_error(const ec_value *a, const ec_value *b, bool is_exact, int depth) {
  enum { MAX_DEPTH = 4 };
  if (a->kind != b->kind) return INFINITY;
  if (depth == MAX_DEPTH) return 0;
  switch ((ec_kind)a->kind) {
  case EC_KIND_TENSOR: return tensor_error(a->as.tensor, b->as.tensor, is_exact);
  case EC_KIND_INT: return a->as.i == b->as.i ? 0 : INFINITY;
  case EC_KIND_BOOL: return a->as.b == b->as.b ? 0 : INFINITY;
  case EC_KIND_DOUBLE: return error_float64(&a->as.d, &b->as.d, 1, is_exact);
  case EC_KIND_INT_LIST:
  case EC_KIND_TENSOR_LIST:
  case EC_KIND_OPTIONAL_TENSOR_LIST: return list_error(a, b, is_exact, depth + 1);
  default: return 0;
  }
}

static double method_error(const ec_method *a, const ec_method *b, bool is_exact, size_t *at) {
  double most = 0;
  for (size_t i = 0; i < ec_method_output_count(a); i++) {
    const double error = value_error(ec_method_output(a, i), ec_method_output(b, i), is_exact, 0);
    if (error <= most) continue;
    most = error;
    *at = i;
  }
  return most;
}

/* ---- running ----------------------------------------------------------------------------- */

typedef struct side {
  ec_method *m;
  ec_trace *trace;
  ec_fuzz_arrays arrays;
  ec_status status;
} side;

static void reset(side *s) {
  ec_method_lock(s->m, NULL, NULL);
  ec_method_reset(s->m);
  ec_method_seed(s->m, 1);
  ec_method_unlock(s->m);
}

/* Executes call `number` with its inputs; the method stays locked. */
static bool run(ec_fuzz *f, side *s, const ec_method_info *info, uint64_t seed, size_t number) {
  f->r = ec_random_seed(seed, number);
  ec_fuzz_ok(f, ec_method_lock(s->m, NULL, &f->err), "lock");
  const bool bound = ec_fuzz_bind(f, s->m, info, &s->arrays);
  if (!bound) return false;
  ec_method_set_trace(s->m, s->trace);
  s->status = ec_method_execute(s->m, &f->err);
  ec_fuzz_ok(f, s->status, "execute");
  ec_method_set_trace(s->m, NULL);
  return true;
}

static void end(ec_fuzz *f, side *s) {
  ec_method_unlock(s->m);
  ec_fuzz_free(f, &s->arrays);
}

/* ---- noise ------------------------------------------------------------------------------- */

/* Runs `calls` calls in both, in `other` with inputs that are rounded otherwise. Returns the error
 * of the last one. */
static double draw_error(ec_fuzz *f, side *one, side *other, const ec_method_info *info,
                         uint64_t seed, size_t calls) {
  double error = INFINITY;
  size_t at;
  reset(one);
  reset(other);
  for (size_t i = 0; i < calls; i++) {
    const ec_random nudge = {f->nudge.state + i};
    f->nudge.state = 0;
    bool fine = run(f, one, info, seed, i);
    f->nudge = nudge;
    fine = run(f, other, info, seed, i) && fine && one->status == other->status;
    error = fine ? method_error(one->m, other->m, false, &at) : INFINITY;
    end(f, one);
    end(f, other);
  }
  return error;
}

/* Returns how far the method moves its results when inputs move by their last bits. */
static double find_noise(ec_fuzz *f, side *one, side *other, const ec_method_info *info,
                         uint64_t seed, size_t calls) {
  double most = 0;
  for (uint64_t draw = 0; draw < DRAWS; draw++) {
    f->nudge = ec_random_seed(seed, draw);
    most = fmax(most, draw_error(f, one, other, info, seed, calls));
  }
  f->nudge.state = 0;
  return most;
}

/* ---- comparing calls --------------------------------------------------------------------- */

typedef struct difference {
  size_t call, output;
  ec_status statuses[2];
  double error; /* 0: none */
} difference;

static void report(ec_fuzz *f, const char *method, const way *w, const difference *d) {
  f->bad = 1;
  f->counts->differ++;
  if (d->statuses[0] != d->statuses[1])
    fprintf(stderr, "method '%s', call %zu: status %#x %s, %#x %s\n", method, d->call,
            (unsigned)d->statuses[0], base.name, (unsigned)d->statuses[1], w->name);
  else
    fprintf(stderr, "method '%s', call %zu: output %zu %s differs from %s (error %g)\n", method,
            d->call, d->output, w->name, base.name, d->error);
}

/* A way that is not exact may take a call that a kernel refuses: a delegate leaves out calls whose
 * results nothing reads, and has the sizes of the plan. */
static bool is_comparable(const way *w, const difference *d) {
  if (d->statuses[0] == EC_MEMORY_ALLOCATION_FAILED) return false;
  if (d->statuses[1] == EC_MEMORY_ALLOCATION_FAILED) return false;
  return w->is_exact || d->statuses[0] == EC_OK;
}

static double compare_call(ec_fuzz *f, const side *one, const side *other, const way *w,
                           difference *d) {
  d->statuses[0] = one->status;
  d->statuses[1] = other->status;
  if (!is_comparable(w, d)) return 0;
  if (one->status != other->status) return INFINITY;
  if (one->status != EC_OK) return 0;
  f->counts->compared++;
  return method_error(one->m, other->m, w->is_exact, &d->output);
}

/* Returns the first difference of calls in a row. */
static difference compare_calls(ec_fuzz *f, side *one, side *other, const way *w,
                                const ec_method_info *info, uint64_t seed) {
  difference d = {.call = 0};
  for (bool goes_on = true; goes_on; d.call++) {
    const bool bound = run(f, one, info, seed, d.call);
    const bool both = run(f, other, info, seed, d.call) && bound;
    d.error = both ? compare_call(f, one, other, w, &d) : 0;
    end(f, one);
    end(f, other);
    if (d.error > MAX_ERROR) return d;
    goes_on = both && d.statuses[0] == EC_OK && d.call + 1 < CALLS;
  }
  d.error = 0;
  return d;
}

/* True if rounding of the inputs does not explain a difference. */
static bool is_decided(ec_fuzz *f, side *one, side *other, const ec_program *program, size_t index,
                       const ec_method_info *info, uint64_t seed, const difference *d) {
  ec_method_free(other->m);
  other->m = NULL;
  if (load(f, program, index, &base, &other->m) != EC_OK) return false;
  double noise = NOISE_FACTOR * find_noise(f, one, other, info, seed, d->call + 1);
  f->coarse = noise < d->error && ec_method_delegate_count(one->m) > 0;
  if (f->coarse) noise = COARSE_FACTOR * find_noise(f, one, other, info, seed, d->call + 1);
  f->coarse = false;
  if (noise >= d->error) f->counts->undecided++;
  return noise < d->error;
}

static void compare_loaded(ec_fuzz *f, side *one, side *other, const way *w,
                           const ec_program *program, size_t index, const ec_method_info *info) {
  const uint64_t seed = ec_random_next(&f->r);
  other->trace = w->traced ? ec_trace_new(EC_TRACE_VALUES, TRACE_LIMIT) : NULL;
  f->tame = !w->is_exact;
  const difference d = compare_calls(f, one, other, w, info, seed);
  ec_trace_free(other->trace);
  other->trace = NULL;
  if (d.error && (w->is_exact || is_decided(f, one, other, program, index, info, seed, &d)))
    report(f, ec_program_method_name(program, index), w, &d);
  f->tame = false;
}

/* True if the results are those of testing/fuzz_openvino.c, which do not follow from the inputs. */
static bool has_stand_in(const ec_method *m) {
  for (size_t i = 0; i < ec_method_delegate_count(m); i++)
    if (!strcmp(ec_method_delegate_id(m, i), "OpenvinoBackend")) return true;
  return false;
}

void ec_fuzz_agree(ec_fuzz *f, const ec_program *one, const ec_program *other, size_t index) {
  const way *w = &ways[ec_random_below(&f->r, WAYS)];
  side a = {.m = NULL}, b = {.m = NULL};
  ec_method_info info;
  if (!ec_fuzz_ok(f, ec_program_describe(one, index, &info, &f->err), "describe")) return;
  difference d = {.statuses = {load(f, one, index, &base, &a.m), load(f, other, index, w, &b.m)}};
  if (a.m && has_stand_in(a.m)) f->counts->unordered++;
  else if (a.m && b.m && !w->is_exact && ec_fuzz_depends_on_order(a.m)) f->counts->unordered++;
  else if (a.m && b.m) compare_loaded(f, &a, &b, w, other, index, &info);
  else if (d.statuses[0] != d.statuses[1] && is_comparable(w, &d))
    report(f, ec_program_method_name(one, index), w, &d);
  ec_method_free(a.m);
  ec_method_free(b.m);
  ec_method_info_deinit(&info);
}
