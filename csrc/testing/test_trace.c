/* trace/: events and values with and without room, nodes of delegates, and ranges. */
#include "trace/trace.h"

#include <math.h>

#include "testing/test.h"

enum { ROOM = 1 << 20 };

static ec_tensor floats(float *data, int64_t count) {
  ec_tensor tensor;
  (void)ec_tensor_init(&tensor, EC_FLOAT32, 1, &count, NULL, NULL);
  tensor.data = data;
  return tensor;
}

void ec_test_trace_kinds(ec_test *t) {
  static const char *const names[] = {"execute", "kernel", "delegate", "move",
                                      "jump",    "free",   "node"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    EC_CHECK(t, !strcmp(ec_event_kind_name((ec_event_kind)i), names[i]));
  EC_CHECK(t, !strcmp(ec_event_kind_name((ec_event_kind)99), "?"));
  ec_trace_free(NULL);
}

void ec_test_trace_values(ec_test *t) {
  float data[4] = {1, 2, 3, 4};
  ec_trace *trace = ec_trace_new(EC_TRACE_VALUES | EC_TRACE_RANGES, ROOM);
  ec_event *event = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_KERNEL, .name = "add"});
  ec_event_value in = {.name = "self", .item = 3, .slot = 4}, out = {.name = "", .is_output = true};
  ec_tensor x = floats(data, 4), empty = floats(NULL, 0), absent = floats(NULL, 4);
  ec_trace_tensor(trace, event, &in, &x);
  ec_trace_tensor(trace, event, &out, &x);
  ec_trace_tensor(trace, event, &out, &empty);
  ec_trace_tensor(trace, event, &out, &absent);
  ec_trace_scalar(trace, event, "alpha", (ec_scalar){EC_KIND_INT, {.i = 7}});
  data[0] = 9;
  const ec_event_value *v = ec_trace_first(trace)->values;
  EC_CHECK(t, !strcmp(v->name, "self") && v->item == 3 && v->slot == 4 && !v->is_output);
  EC_CHECK(t, !v->data && v->range->low == 1 && v->range->high == 4 && v->nbytes == 16);
  EC_CHECK(t, v->dtype == EC_FLOAT32 && v->rank == 1 && v->sizes[0] == 4 && v->dim_order[0] == 0);
  v = v->next;
  EC_CHECK(t, v->is_output && v->data && ((const float *)v->data)[0] == 1);
  EC_CHECK(t, v->scalar.kind == EC_KIND_TENSOR);
  v = v->next;
  EC_CHECK(t, v->data && v->range && v->range->low > v->range->high);
  v = v->next;
  EC_CHECK(t, !v->data && !v->range);
  v = v->next;
  EC_CHECK(t, v->scalar.kind == EC_KIND_INT && v->scalar.as.i == 7 && v->is_output && !v->next);
  EC_CHECK(t, ec_trace_dropped_values(trace) == 0 && ec_trace_keeps(trace) == 3);
  ec_trace_free(trace);
}

/* Every limit in turn: what does not fit is counted, what fits is whole. */
void ec_test_trace_limits(ec_test *t) {
  float data[64] = {5};
  ec_tensor x = floats(data, 64);
  size_t events = 0, values = 0, copies = 0, ranges = 0, orders = 0;
  for (size_t limit = 0; limit < 4096; limit++) {
    ec_trace *trace = ec_trace_new(EC_TRACE_VALUES | EC_TRACE_RANGES, limit);
    ec_event *event = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_MOVE, .name = "long"});
    ec_trace_tensor(trace, event, &(ec_event_value){.name = "x", .is_output = true}, &x);
    const ec_event *first = ec_trace_first(trace);
    const ec_event_value *v = first ? first->values : NULL;
    EC_CHECK(t, !first == (ec_trace_dropped_events(trace) == 1));
    EC_CHECK(t, !first || !strcmp(first->name, "long") || !first->name[0]);
    EC_CHECK(t, !v || v->rank == 1 || (!v->data && !v->range && !v->dim_order));
    EC_CHECK(t, !v || !v->data || !memcmp(v->data, data, sizeof data));
    const size_t missing = !first ? 0 : !v ? 1 : !v->rank ? 0u : (size_t)!v->data + !v->range;
    EC_CHECK(t, ec_trace_dropped_values(trace) == missing);
    events += first != NULL;
    values += v != NULL;
    orders += v && v->dim_order;
    copies += v && v->data;
    ranges += v && v->range;
    ec_trace_free(trace);
  }
  EC_CHECK(t, events < 4096 && values < events && orders < values);
  EC_CHECK(t, copies < values && ranges < values && copies && ranges);
}

void ec_test_trace_bound_data(ec_test *t) {
  float data[4] = {0};
  ec_tensor x = floats(data, 4);
  const ec_event_value out = {.name = "", .is_output = true};
  ec_trace *trace = ec_trace_new(EC_TRACE_VALUES, ROOM);
  ec_trace_bound_data(trace, 24);
  ec_event *event = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_KERNEL, .name = ""});
  ec_trace_tensor(trace, event, &out, &x);
  ec_trace_tensor(trace, event, &out, &x);
  EC_CHECK(t, event->values->data && !event->values->next->data);
  EC_CHECK(t, ec_trace_dropped_values(trace) == 1 && !event->values->range);
  ec_trace_free(trace);
}

typedef struct altered {
  size_t calls;
  uint32_t last;
} altered;

static void alter(void *user, const ec_event *event, uint32_t output, const ec_tensor *tensor) {
  altered *a = user;
  (void)event;
  a->calls++;
  a->last = output;
  ((float *)tensor->data)[0] = 8;
}

void ec_test_trace_alters(ec_test *t) {
  altered a = {0};
  float data[2] = {1, 2};
  ec_tensor x = floats(data, 2), absent = floats(NULL, 2);
  const ec_event_value in = {.name = ""}, out = {.name = "", .is_output = true};
  ec_trace *trace = ec_trace_new(EC_TRACE_VALUES, 2 * ROOM);
  ec_trace_set_alter(trace, alter, &a);
  EC_CHECK(t, ec_trace_keeps(trace) == (EC_TRACE_VALUES | EC_TRACE_ALTERS));
  ec_event *event = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_KERNEL, .name = ""});
  ec_trace_tensor(trace, event, &in, &x); /* no result */
  ec_trace_tensor(trace, event, &out, &absent); /* no data */
  EC_CHECK(t, a.calls == 0 && data[0] == 1);
  ec_trace_tensor(trace, event, &out, &x);
  EC_CHECK(t, a.calls == 1 && a.last == 1 && data[0] == 8);
  ec_event *whole = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_EXECUTE, .name = ""});
  ec_trace_tensor(trace, whole, &out, &x); /* of a whole call: its results are those of others */
  EC_CHECK(t, a.calls == 1);
  ec_trace_free(trace);
  trace = ec_trace_new(EC_TRACE_RANGES, ROOM); /* without copies of results */
  event = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_KERNEL, .name = ""});
  ec_tensor number = x;
  number.rank = 0;
  number.numel = 1;
  ec_trace_tensor(trace, event, &out, &number);
  EC_CHECK(t, !event->values->data && event->values->range && event->values->dim_order);
  ec_trace_free(trace);
  trace = ec_trace_new(0, 8); /* no room for events */
  ec_trace_set_alter(trace, alter, &a);
  event = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_KERNEL, .name = ""});
  ec_trace_tensor(trace, event, &out, &x);
  ec_trace_scalar(trace, event, "", (ec_scalar){EC_KIND_INT, {.i = 7}});
  EC_CHECK(t, a.calls == 1 && ec_trace_dropped_events(trace) == 1);
  EC_CHECK(t, ec_trace_dropped_values(trace) == 0);
  ec_trace_free(trace);
}

void ec_test_trace_nodes(ec_test *t) {
  float data[2] = {1, 2};
  ec_tensor x = floats(data, 2);
  ec_trace *trace = ec_trace_new(EC_TRACE_VALUES, ROOM);
  ec_trace_node(trace, 1, "nowhere", 5); /* outside of a delegate */
  ec_trace_node_value(trace, 1, true, &x);
  EC_CHECK(t, !ec_trace_first(trace));
  ec_trace_nest(trace, 1);
  ec_event *delegate = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_DELEGATE, .name = "D"});
  ec_trace_start(delegate);
  const ec_trace_scope outer = ec_trace_enter(trace, delegate);
  EC_CHECK(t, !outer.delegate);
  ec_trace_node(trace, 7, "conv", 5);
  ec_trace_node(trace, 8, NULL, 6);
  ec_trace_node_value(trace, 7, true, &x);
  ec_trace_node_value(trace, 9, false, &x); /* of a node that was not reported */
  ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_FREE, .debug_handle = 7, .name = "free"});
  ec_trace_nest(trace, 1);
  ec_event *inner = ec_trace_begin(trace, &(ec_event){.kind = EC_EVENT_NODE, .debug_handle = 7,
                                                      .name = "other program"});
  ec_trace_nest(trace, -1);
  ec_trace_node_value(trace, 7, true, &x);
  EC_CHECK(t, !inner->values);
  const ec_event *node = delegate->next;
  EC_CHECK(t, node->kind == EC_EVENT_NODE && !strcmp(node->name, "conv") && node->number == 0);
  EC_CHECK(t, node->start == delegate->start && node->duration == 5 && node->depth == 1);
  EC_CHECK(t, node->values && node->values->next && !node->values->next->next);
  EC_CHECK(t, node->values->data && node->values->slot == EC_TRACE_NONE);
  node = node->next;
  EC_CHECK(t, !node->name[0] && node->start == delegate->start + 5 && node->number == 1);
  node = node->next;
  EC_CHECK(t, node->debug_handle == 9 && node->number == 2 && node->duration == 0);
  EC_CHECK(t, node->start == delegate->start + 11 && !node->values->is_output);
  ec_trace_leave(trace, outer);
  ec_trace_node(trace, 1, "nowhere", 5);
  EC_CHECK(t, node->next->kind == EC_EVENT_FREE && !node->next->values);
  EC_CHECK(t, node->next->next == inner && !inner->next && inner->depth == 2);
  ec_trace_end(delegate, true);
  EC_CHECK(t, delegate->failed && delegate->duration < (uint64_t)60 * 1000000000);
  ec_trace_free(trace);
  trace = ec_trace_new(0, 8);
  ec_trace_enter(trace, ec_trace_begin(trace, &(ec_event){.name = ""}));
  ec_trace_node(trace, 1, "dropped", 5);
  ec_trace_node_value(trace, 1, true, &x);
  EC_CHECK(t, ec_trace_dropped_events(trace) == 1);
  ec_trace_enter(trace, NULL);
  ec_trace_node(trace, 1, "nowhere", 5);
  EC_CHECK(t, ec_trace_dropped_events(trace) == 1);
  ec_trace_free(trace);
}

/* Three numbers in every dtype that has a range. */
void ec_test_trace_ranges(ec_test *t) {
  const uint8_t bytes[3 * 16] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  size_t kinds = 0;
  for (int dtype = 0; dtype < EC_DTYPE_COUNT; dtype++) {
    ec_tensor x;
    ec_range range;
    const int64_t size = 3;
    if (ec_tensor_init(&x, (ec_dtype)dtype, 1, &size, NULL, NULL) != EC_OK) continue;
    x.data = (void *)(uintptr_t)bytes;
    if (dtype == EC_BOOL) x.data = (void *)(uintptr_t) "\1\0\1";
    ec_range_of(&x, &range);
    const bool known = range.low <= range.high;
    EC_CHECK(t, range.nan + range.above + range.below == 0 && range.first == UINT64_MAX);
    EC_CHECK(t, !known || range.high >= range.low);
    kinds += known;
    x.data = NULL;
    ec_range_of(&x, &range);
    EC_CHECK(t, range.low > range.high);
  }
  EC_CHECK(t, kinds >= 15);
}

void ec_test_trace_nonfinite(ec_test *t) {
  float data[] = {2, -3, NAN, INFINITY, -INFINITY, -INFINITY};
  double pairs[] = {1, 2, 3, 4, 5, NAN};
  ec_range range;
  ec_tensor x = floats(data, 6), complex;
  ec_range_of(&x, &range);
  EC_CHECK(t, range.nan == 1 && range.above == 1 && range.below == 2 && range.first == 2);
  EC_CHECK(t, range.low == -3 && range.high == 2);
  (void)ec_tensor_init(&complex, EC_COMPLEX128, 1, (const int64_t[]){3}, NULL, NULL);
  complex.data = pairs;
  ec_range_of(&complex, &range);
  EC_CHECK(t, range.nan == 1 && range.first == 2 && range.low == 1 && range.high == 5);
  pairs[5] = 6;
  ec_range_of(&complex, &range);
  EC_CHECK(t, range.nan == 0 && range.first == UINT64_MAX && range.high == 6);
  (void)ec_tensor_init(&complex, EC_COMPLEX64, 1, (const int64_t[]){3}, NULL, NULL);
  complex.data = data;
  ec_range_of(&complex, &range);
  EC_CHECK(t, range.first == 1 && range.below == 2 && range.low == -3);
}
