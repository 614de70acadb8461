/* One call: shapes, then memory, then XNNPACK. Unchanged steps are skipped: a call with the shapes
 * and arrays of the last one goes straight to XNNPACK. */
#include "run/execute.h"

#include <string.h>

#include "call.h"
#include "nodes/infer.h"
#include "payload/constants.h"
#include "payload/values.h"
#include "run/delegate.h"
#include "run/engine.h"
#include "run/finite.h"
#include "run/memory.h"
#include "run/trace.h"

enum { FLOAT32 = 6, INT64 = 4, BFLOAT16 = 15 };

/* One call of execute. */
typedef struct run {
  const ecx_call *c;
  ecx_delegate *d;
  ec_backend_arg *args;
} run;

static ecx_value *value_of(const run *r, const ecx_external *e) {
  return &r->d->graph.values[e->value];
}
static ec_backend_tensor *tensor_of(const run *r, const ecx_external *e) {
  return &r->args[e->position].as.tensor;
}
static bool is_input(const run *r, const ecx_external *e) {
  return (size_t)(e - r->d->externals) < r->d->input_count;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool has_dtype(const ecx_value *v, int32_t dtype) {
  return dtype == ecx_dtypes[v->dtype].scalar ||
         (v->dtype == ECX_int32 && v->is_output && dtype == INT64);
}

static uint32_t check_arg(const run *r, const ecx_external *e) {
  const ec_backend_arg *arg = &r->args[e->position];
  const ecx_value *v = value_of(r, e);
  const char *role = v->is_input ? "input" : "output";
  if (arg->kind != EC_BACKEND_TENSOR)
    return ecx_fail(r->c, EC_BACKEND_INVALID_ARGUMENT,
                    "argument %u (an %s) has kind %u, expected a tensor", (unsigned)e->position,
                    role, (unsigned)arg->kind);
  if (!has_dtype(v, arg->as.tensor.dtype))
    return ecx_fail(r->c, EC_BACKEND_INVALID_ARGUMENT,
                    "argument %u (an %s) has dtype number %d, expected %d (%s in the delegate)",
                    (unsigned)e->position, role, (int)arg->as.tensor.dtype,
                    (int)ecx_dtypes[v->dtype].scalar, ecx_dtypes[v->dtype].name);
  if (v->is_output && !arg->as.tensor.writable)
    return ecx_fail(r->c, EC_BACKEND_INVALID_ARGUMENT,
                    "argument %u (an output) is read-only: the program writes to a constant",
                    (unsigned)e->position);
  return EC_BACKEND_OK;
}

/* True for an inner value of a run that is an output only to be looked at. */
static bool is_watched(const run *r, const ecx_external *e) {
  const uint32_t from = r->d->draft.watched_from;
  return from && e->position >= from;
}

static uint32_t check_args(const run *r, size_t count) {
  const ecx_delegate *d = r->d;
  if (count != (d->draft.watched_from ? d->draft.watched_from : d->graph.arg_count))
    return ecx_fail(r->c, EC_BACKEND_INVALID_ARGUMENT,
                    "%zu arguments for the delegate, expected %u: %u inputs and %u outputs", count,
                    (unsigned)d->graph.arg_count, (unsigned)d->graph.input_count,
                    (unsigned)d->graph.output_count);
  for (uint32_t i = 0; i < d->external_count; i++)
    if (!is_watched(r, &d->externals[i])) ECX_TRY(check_arg(r, &d->externals[i]));
  return EC_BACKEND_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Computes sizes in memory order, as XNNPACK expects. A scalar may be a row of one there. */
static uint32_t input_shape(const run *r, const ecx_external *e, ecx_shape *out) {
  const ec_backend_tensor *t = tensor_of(r, e);
  const ecx_value *v = value_of(r, e);
  if (t->rank == 0) {
    *out = (ecx_shape){.rank = v->shape.rank, .dims = {1, 1, 1, 1, 1, 1}};
    return EC_BACKEND_OK;
  }
  if (t->rank != v->shape.rank) {
    char text[ECX_TEXT];
    return ecx_fail(r->c, EC_BACKEND_INVALID_ARGUMENT,
                    "argument %u (an input) has %u dimensions, the delegate was made for %s",
                    (unsigned)e->position, (unsigned)t->rank,
                    ecx_shape_text(&v->shape, text, sizeof text));
  }
  out->rank = t->rank;
  for (size_t i = 0; i < out->rank; i++) out->dims[i] = (size_t)t->sizes[t->dim_order[i]];
  return EC_BACKEND_OK;
}

static uint32_t read_input_shapes(const run *r) {
  ecx_delegate *d = r->d;
  bool changed = d->shapes == 0;
  for (uint32_t i = 0; i < d->input_count; i++) {
    ecx_value *v = value_of(r, &d->externals[i]);
    ecx_shape shape;
    ECX_TRY(input_shape(r, &d->externals[i], &shape));
    changed = changed || !ecx_shapes_equal(&shape, &v->shape);
    v->shape = shape;
  }
  if (!changed) return EC_BACKEND_OK;
  d->shapes = 0; /* until they are found valid */
  ECX_TRY(ecx_graph_infer(r->c, &d->graph));
  d->shapes = ++d->changes;
  return EC_BACKEND_OK;
}

/* Resizes an output to the shape that it has in memory. */
static uint32_t resize_output(const run *r, const ecx_external *e) {
  ec_backend_tensor *t = tensor_of(r, e);
  const ecx_shape *shape = &value_of(r, e)->shape;
  int64_t sizes[XNN_MAX_TENSOR_DIMS];
  bool same = true;
  size_t count;
  char text[ECX_TEXT];
  if (t->rank != shape->rank) {
    if (ecx_shape_count(shape, &count) && count == 1 && t->rank == 0) return EC_BACKEND_OK;
    return ecx_fail(r->c, EC_BACKEND_INVALID_ARGUMENT,
                    "argument %u (an output) has %u dimensions, the delegate computes %s",
                    (unsigned)e->position, (unsigned)t->rank,
                    ecx_shape_text(shape, text, sizeof text));
  }
  for (size_t i = 0; i < shape->rank; i++) {
    sizes[t->dim_order[i]] = (int64_t)shape->dims[i];
    same = same && t->sizes[t->dim_order[i]] == (int64_t)shape->dims[i];
  }
  return same ? EC_BACKEND_OK
              : r->c->host->resize(r->c->call, &r->args[e->position], shape->rank, sizes);
}

/* Resizes outputs; sets `any` if there is anything to compute. */
static uint32_t resize_outputs(const run *r, bool *any) {
  const ecx_delegate *d = r->d;
  *any = false;
  for (uint32_t i = d->input_count; i < d->external_count; i++) {
    const ecx_external *e = &d->externals[i];
    size_t count = 0;
    if (is_watched(r, e)) continue;
    ECX_TRY(resize_output(r, e));
    const ec_backend_tensor *t = tensor_of(r, e);
    size_t item = t->dtype == INT64 ? 8u : ecx_dtypes[value_of(r, e)->dtype].bits / 8u;
    if (!ecx_shape_count(&value_of(r, e)->shape, &count) || t->nbytes != count * item)
      return ecx_fail(r->c, EC_BACKEND_INTERNAL,
                      "argument %u (an output) has %zu bytes, expected %zu elements of %zu",
                      (unsigned)e->position, t->nbytes, count, item);
    *any = *any || count > 0;
  }
  return EC_BACKEND_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool args_overlap(const ec_backend_tensor *a, const ec_backend_tensor *b) {
  uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  return x < y + b->nbytes && y < x + a->nbytes;
}

static bool overlaps_another(const run *r, const ecx_external *e) {
  for (uint32_t i = 0; i < r->d->external_count; i++)
    if (&r->d->externals[i] != e && !is_watched(r, &r->d->externals[i]) &&
        args_overlap(tensor_of(r, e), tensor_of(r, &r->d->externals[i])))
      return true;
  return false;
}

/* True if XNNPACK's element type is not the argument's. */
static bool is_converted(const run *r, const ecx_external *e) {
  int32_t dtype = tensor_of(r, e)->dtype;
  return dtype == BFLOAT16 || dtype == INT64;
}

static bool needs_staging(const run *r, const ecx_external *e) {
  if (is_watched(r, e)) return true;
  const ec_backend_tensor *t = tensor_of(r, e);
  if (t->nbytes == 0 || is_converted(r, e)) return true;
  return is_input(r, e) ? ecx_ends_unreadable(r->c, t->data, t->nbytes) : overlaps_another(r, e);
}

static void copy_in(const run *r, const ecx_external *e) {
  const ec_backend_tensor *t = tensor_of(r, e);
  if (t->dtype != BFLOAT16) {
    if (t->nbytes) memcpy(e->staging.at, t->data, t->nbytes);
    return;
  }
  const uint16_t *from = t->data;
  uint32_t *to = e->staging.at;
  for (size_t i = 0; i < t->nbytes / 2; i++) to[i] = (uint32_t)from[i] << 16;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static uint16_t to_bfloat16(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static void copy_out(const run *r, const ecx_external *e) {
  const ec_backend_tensor *t = tensor_of(r, e);
  if (t->dtype == INT64) {
    const int32_t *from = e->staging.at;
    for (size_t i = 0; i < t->nbytes / 8; i++) ((int64_t *)t->data)[i] = from[i];
  } else if (t->dtype == BFLOAT16) {
    const uint32_t *from = e->staging.at;
    for (size_t i = 0; i < t->nbytes / 2; i++) ((uint16_t *)t->data)[i] = to_bfloat16(from[i]);
  } else if (t->nbytes) {
    memcpy(t->data, e->staging.at, t->nbytes);
  }
}

/* Sets the memory of each argument for XNNPACK. */
static uint32_t place_args(const run *r) {
  ecx_delegate *d = r->d;
  for (uint32_t i = 0; i < d->external_count; i++) {
    ecx_external *e = &d->externals[i];
    void *data = is_watched(r, e) ? NULL : tensor_of(r, e)->data;
    size_t bytes;
    e->is_staged = needs_staging(r, e);
    if (e->is_staged) {
      if (!ecx_value_bytes(value_of(r, e), &bytes)) bytes = 0; /* cannot happen after inference */
      if (!ecx_buffer_grow(r->c->host, &e->staging, bytes))
        return ecx_fail(r->c, EC_BACKEND_ALLOCATION_FAILED,
                        "no memory for a copy of argument %u (%zu bytes)", (unsigned)e->position,
                        bytes);
      data = e->staging.at;
      if (is_input(r, e)) copy_in(r, e);
    }
    d->pointers[i] = data;
  }
  return EC_BACKEND_OK;
}

/* ---- values that are not finite -------------------------------------------------------------- */

/* Some kernels of XNNPACK lose NaN, on some processors, or make it of large numbers. So kernels
 * compute with values that are not finite. */
static uint32_t decline_nonfinite(const run *r, uint32_t from, uint32_t end) {
  if (!r->d->written) return EC_BACKEND_OK;
  void *pool = r->c->host->threadpool(r->c->call);
  for (uint32_t i = from; i < end; i++) {
    size_t bytes;
    const ecx_value *v = value_of(r, &r->d->externals[i]);
    if (v->dtype != ECX_fp32) continue;
    if (!ecx_value_bytes(v, &bytes)) bytes = 0; /* inferred: fits */
    if (ecx_has_nonfinite(r->d->pointers[i], bytes / sizeof(float), pool))
      return ecx_fail(r->c, EC_BACKEND_NOT_SUPPORTED, "argument %u is not finite",
                      (unsigned)r->d->externals[i].position);
  }
  return EC_BACKEND_OK;
}

uint32_t ecx_execute(const ecx_call *c, ecx_delegate *d, ec_backend_arg *args, size_t count) {
  run r = {c, d, args};
  uint32_t wants = c->host->trace_wants(c->call);
  bool any, copies = false;
  d->is_repeatable = false;
  ECX_TRY(check_args(&r, count));
  ECX_TRY(read_input_shapes(&r));
  ECX_TRY(resize_outputs(&r, &any));
  if (!any) return EC_BACKEND_OK;
  ECX_TRY(place_args(&r));
  ECX_TRY(decline_nonfinite(&r, 0, d->input_count));
  if (wants)
    ECX_TRY(ecx_trace_run(c, d, wants, d->pointers));
  else
    ECX_TRY(ecx_engine_run(c, d, ECX_PLAIN_RUN, d->pointers));
  ECX_TRY(decline_nonfinite(&r, d->input_count, d->external_count));
  for (uint32_t i = 0; i < d->external_count; i++) {
    const ecx_external *e = &d->externals[i];
    copies = copies || e->is_staged;
    if (i >= d->input_count && e->is_staged && !is_watched(&r, e)) copy_out(&r, e);
  }
  d->is_repeatable = !wants && !copies && !d->written;
  return EC_BACKEND_OK;
}

uint32_t ecx_repeat(const ecx_call *c, ecx_delegate *d) {
  return d->is_repeatable ? ecx_engine_repeat(c, d) : EC_BACKEND_NOT_SUPPORTED;
}
