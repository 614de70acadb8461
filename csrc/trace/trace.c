/* Events in an arena, limited in bytes. */
#include "trace/trace.h"

#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/arena.h"
#include "core/budget.h"

/* Bytes of the Python objects of an event, a value, a size and a range (CPython 3.11). */
enum { EVENT_OBJECTS = 480, VALUE_OBJECTS = 400, SIZE_OBJECTS = 48, RANGE_OBJECTS = 400 };

struct ec_trace {
  ec_arena arena;
  unsigned keeps;
  size_t used, max_bytes;
  size_t data, max_data; /* bytes of copied results, part of the total */
  ec_event *first, *last;
  size_t dropped_events, dropped_values;
  ec_event nowhere; /* target for the data of dropped events */
  ec_trace_scope scope;
  uint16_t depth;
  ec_trace_alter_fn alter; /* or NULL */
  void *alter_user;
};

ec_trace *ec_trace_new(unsigned keeps, size_t max_bytes) {
  ec_trace *trace = ec_alloc_zeroed(sizeof *trace);
  if (!trace) return NULL;
  trace->keeps = keeps;
  trace->max_bytes = max_bytes;
  trace->max_data = SIZE_MAX;
  return trace;
}

void ec_trace_bound_data(ec_trace *trace, size_t max_data) { trace->max_data = max_data; }

void ec_trace_set_alter(ec_trace *trace, ec_trace_alter_fn fn, void *user) {
  trace->alter = fn;
  trace->alter_user = user;
  trace->keeps |= EC_TRACE_ALTERS;
}

void ec_trace_free(ec_trace *trace) {
  if (!trace) return;
  ec_arena_deinit(&trace->arena);
  ec_free(trace);
}

unsigned ec_trace_keeps(const ec_trace *trace) { return trace->keeps; }
const ec_event *ec_trace_first(const ec_trace *trace) { return trace->first; }
size_t ec_trace_dropped_events(const ec_trace *trace) { return trace->dropped_events; }
size_t ec_trace_dropped_values(const ec_trace *trace) { return trace->dropped_values; }

const char *ec_event_kind_name(ec_event_kind kind) {
  switch (kind) {
#define EC_EVENT(NAME, text)                                                                       \
  case EC_EVENT_##NAME: return text;
#include "trace/events.def"
#undef EC_EVENT
  }
  return "?";
}

uint64_t ec_trace_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns NULL if the limit or the memory is exhausted. A trace has a separate limit, so that
 * tracing does not change the cost of a call. */
static void *trace_alloc(ec_trace *trace, size_t size, size_t align) {
  if (size > trace->max_bytes - trace->used) return NULL;
  ec_budget *budget = ec_budget_suspend();
  void *block = ec_arena_alloc(&trace->arena, size, align);
  ec_budget_resume(budget);
  if (block) trace->used += size;
  return block;
}

/* Allocates a part that Python shows as objects of `objects` bytes, which count towards the limit:
 * an endless loop has millions of events. */
static void *alloc_part(ec_trace *trace, size_t size, size_t align, size_t objects) {
  const size_t room = trace->max_bytes - trace->used;
  void *block = objects < room && size <= room - objects ? trace_alloc(trace, size, align) : NULL;
  if (block) trace->used += objects;
  return block;
}

static const char *copy_name(ec_trace *trace, const char *name) {
  const size_t size = strlen(name) + 1;
  char *copy = trace_alloc(trace, size, 1);
  return copy ? memcpy(copy, name, size) : "";
}

/* ---- events ------------------------------------------------------------------------------ */

ec_event *ec_trace_begin(ec_trace *trace, const ec_event *head) {
  ec_event *event = alloc_part(trace, sizeof *event, _Alignof(ec_event), EVENT_OBJECTS);
  if (!event) {
    trace->dropped_events++;
    return &trace->nowhere;
  }
  *event = *head;
  event->next = NULL;
  event->depth = trace->depth;
  event->name = copy_name(trace, head->name);
  event->values = NULL;
  event->last = &event->values;
  if (trace->last) trace->last->next = event;
  else trace->first = event;
  trace->last = event;
  return event;
}

void ec_trace_start(ec_event *event) { event->start = ec_trace_now(); }

void ec_trace_end(ec_event *event, bool failed) {
  event->duration = ec_trace_now() - event->start;
  event->failed = failed;
}

void ec_trace_nest(ec_trace *trace, int by) { trace->depth = (uint16_t)(trace->depth + by); }

/* ---- values ------------------------------------------------------------------------------ */

/* Returns NULL if the copy does not fit. */
static const void *copy_data(ec_trace *trace, const ec_tensor *t) {
  const size_t nbytes = ec_tensor_nbytes(t);
  if (!t->data && nbytes) return NULL;
  const bool fits = nbytes <= trace->max_data - trace->data;
  void *copy = fits ? trace_alloc(trace, nbytes ? nbytes : 1, EC_ALIGN) : NULL;
  if (!copy) {
    trace->dropped_values++;
    return NULL;
  }
  trace->data += nbytes;
  if (nbytes) memcpy(copy, t->data, nbytes);
  return copy;
}

/* Returns NULL without an event or memory. */
static ec_event_value *add_value(ec_trace *trace, ec_event *event, const char *name, size_t rank) {
  if (event == &trace->nowhere) return NULL;
  const size_t size = sizeof(ec_event_value) + rank * sizeof(int64_t);
  ec_event_value *value =
      alloc_part(trace, size, _Alignof(ec_event_value), VALUE_OBJECTS + rank * SIZE_OBJECTS);
  if (!value) {
    trace->dropped_values++;
    return NULL;
  }
  memset(value, 0, size);
  value->name = copy_name(trace, name);
  value->item = value->slot = EC_TRACE_NONE;
  *event->last = value;
  event->last = &value->next;
  return value;
}

/* Returns NULL if the range does not fit or the tensor has no data. */
static const ec_range *find_range(ec_trace *trace, const ec_tensor *t) {
  if (!t->data && t->numel) return NULL;
  ec_range *range = alloc_part(trace, sizeof *range, _Alignof(ec_range), RANGE_OBJECTS);
  if (range) ec_range_of(t, range);
  else trace->dropped_values++;
  return range;
}

/* Lets a result of an instruction or node be changed. */
static void alter_result(const ec_trace *trace, const ec_event *event, const ec_tensor *tensor) {
  uint32_t output = 0;
  if (event == &trace->nowhere || event->kind == EC_EVENT_EXECUTE || !tensor->data) return;
  for (const ec_event_value *v = event->values; v; v = v->next) output += v->is_output ? 1 : 0;
  trace->alter(trace->alter_user, event, output, tensor);
}

void ec_trace_tensor(ec_trace *trace, ec_event *event, const ec_event_value *head,
                     const ec_tensor *tensor) {
  if (trace->alter && head->is_output) alter_result(trace, event, tensor);
  ec_event_value *value = add_value(trace, event, head->name, tensor->rank);
  if (!value) return;
  uint8_t *order = trace_alloc(trace, tensor->rank ? tensor->rank : 1u, 1);
  value->item = head->item;
  value->slot = head->slot;
  value->is_output = head->is_output;
  value->scalar.kind = EC_KIND_TENSOR;
  value->dtype = tensor->dtype;
  if (!order) return; /* represented by a tensor of rank 0 without data */
  value->rank = tensor->rank;
  value->dim_order = memcpy(order, tensor->dim_order, tensor->rank);
  memcpy(value->sizes, tensor->sizes, tensor->rank * sizeof *value->sizes);
  value->nbytes = ec_tensor_nbytes(tensor);
  if (value->is_output && (trace->keeps & EC_TRACE_VALUES)) value->data = copy_data(trace, tensor);
  if (trace->keeps & EC_TRACE_RANGES) value->range = find_range(trace, tensor);
}

void ec_trace_scalar(ec_trace *trace, ec_event *event, const char *name, ec_scalar scalar) {
  ec_event_value *value = add_value(trace, event, name, 0);
  if (!value) return;
  value->is_output = true;
  value->scalar = scalar;
}

/* ---- inside delegates -------------------------------------------------------------------- */

ec_trace_scope ec_trace_enter(ec_trace *trace, ec_event *delegate) {
  const ec_trace_scope outer = trace->scope;
  trace->scope = (ec_trace_scope){delegate, delegate ? delegate->start : 0, 0};
  return outer;
}

void ec_trace_leave(ec_trace *trace, ec_trace_scope outer) { trace->scope = outer; }

static ec_event *add_node(ec_trace *trace, uint32_t debug_handle, const char *name) {
  ec_event head = *trace->scope.delegate;
  head.kind = EC_EVENT_NODE;
  head.name = name;
  head.debug_handle = debug_handle;
  head.number = trace->scope.nodes++;
  head.failed = false;
  head.start = trace->scope.clock;
  head.duration = 0;
  return ec_trace_begin(trace, &head);
}

void ec_trace_node(ec_trace *trace, uint32_t debug_handle, const char *name, uint64_t duration) {
  ec_event *delegate = trace->scope.delegate;
  if (!delegate || delegate == &trace->nowhere) return;
  ec_event *node = add_node(trace, debug_handle, name ? name : "");
  node->duration = duration;
  trace->scope.clock += duration;
}

void ec_trace_node_value(ec_trace *trace, uint32_t debug_handle, bool is_output,
                         const ec_tensor *tensor) {
  const ec_event_value head = {
      .name = "", .item = EC_TRACE_NONE, .slot = EC_TRACE_NONE, .is_output = is_output};
  ec_event *delegate = trace->scope.delegate, *node = NULL;
  if (!delegate || delegate == &trace->nowhere) return;
  for (ec_event *e = delegate->next; e; e = e->next)
    if (e->kind == EC_EVENT_NODE && e->depth == delegate->depth && e->debug_handle == debug_handle)
      node = e;
  if (!node) node = add_node(trace, debug_handle, "");
  ec_trace_tensor(trace, node, &head, tensor);
}
