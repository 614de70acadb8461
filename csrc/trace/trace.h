/* A trace: events that a method's calls leave in memory, in the order in which they begin.
 *
 * Whoever runs something begins an event, adds values, stamps start and end. One thread at a time
 * does (the one that has the method locked). What does not fit into the bound of bytes is counted
 * and left out; functions take the event that stands for it like any other. */
#ifndef EC_TRACE_TRACE_H
#define EC_TRACE_TRACE_H

#include "core/tensor.h"
#include "core/value.h"
#include "trace/range.h"

typedef enum ec_event_kind {
#define EC_EVENT(NAME, text) EC_EVENT_##NAME,
#include "trace/events.def"
#undef EC_EVENT
} ec_event_kind;

enum { EC_TRACE_NONE = UINT32_MAX }; /* no such number */

/* What a trace keeps beside events and shapes: bits. */
enum {
  EC_TRACE_VALUES = 1, /* copies of results */
  EC_TRACE_RANGES = 2  /* the range of everything that is taken or given */
};

/* An argument or a result: a tensor or a number. */
typedef struct ec_event_value {
  struct ec_event_value *next;
  const char *name; /* of the argument; "" where it has none */
  uint32_t item;    /* in a list; EC_TRACE_NONE */
  uint32_t slot;    /* number of the value in the method; EC_TRACE_NONE inside delegates */
  bool is_output;
  uint8_t dtype, rank; /* of a tensor */
  ec_scalar scalar;    /* kind EC_KIND_TENSOR: a tensor */
  size_t nbytes;
  const void *data; /* a copy of the tensor's, EC_ALIGN-aligned; NULL: none */
  const ec_range *range; /* NULL: none */
  const uint8_t *dim_order;
  int64_t sizes[];
} ec_event_value;

typedef struct ec_event {
  struct ec_event *next;
  uint8_t kind; /* an ec_event_kind */
  bool failed;
  uint16_t depth;              /* of programs inside payloads; 0: the method's own */
  uint32_t chain, instruction; /* instruction numbers are what an ETRecord's debug handles go by */
  uint32_t delegate;           /* its index in the file */
  uint32_t debug_handle;       /* of a node */
  uint64_t start, duration;    /* ns of CLOCK_MONOTONIC; of nodes: one behind the other */
  const char *name;            /* operator, backend, node, method */
  ec_event_value *values, **last;
} ec_event;

typedef struct ec_trace ec_trace;

/* `keeps`: EC_TRACE_* bits. NULL without memory. */
ec_trace *ec_trace_new(unsigned keeps, size_t max_bytes);
void ec_trace_free(ec_trace *trace); /* NULL is allowed */
/* Copies of results may take so much of max_bytes; without a call, all. */
void ec_trace_bound_data(ec_trace *trace, size_t max_data);

unsigned ec_trace_keeps(const ec_trace *trace);
const ec_event *ec_trace_first(const ec_trace *trace);
/* Events, and data of values, that were left out. */
size_t ec_trace_dropped_events(const ec_trace *trace);
size_t ec_trace_dropped_values(const ec_trace *trace);

const char *ec_event_kind_name(ec_event_kind kind);

/* A new event at the end: kind, name (copied), chain, instruction and delegate from `head`. Never
 * NULL. */
ec_event *ec_trace_begin(ec_trace *trace, const ec_event *head);
uint64_t ec_trace_now(void);          /* ns of CLOCK_MONOTONIC */
void ec_trace_start(ec_event *event); /* now */
void ec_trace_end(ec_event *event, bool failed);

/* Adds a tensor, its data where it is an output and values are kept, its range where ranges are.
 * Name (copied), item, slot and is_output are those of `head`. */
void ec_trace_tensor(ec_trace *trace, ec_event *event, const ec_event_value *head,
                     const ec_tensor *tensor);
void ec_trace_scalar(ec_trace *trace, ec_event *event, const char *name, ec_scalar scalar);

/* Inside of which delegate nodes are added, and where the next one starts. */
typedef struct ec_trace_scope {
  ec_event *delegate;
  uint64_t clock;
} ec_trace_scope;

/* Enters a delegate that has started (NULL: something without nodes); gives what to go back to. */
ec_trace_scope ec_trace_enter(ec_trace *trace, ec_event *delegate);
void ec_trace_leave(ec_trace *trace, ec_trace_scope outer);

/* A node of the present delegate that has run. */
void ec_trace_node(ec_trace *trace, uint32_t debug_handle, const char *name, uint64_t duration);
/* What a node has computed, or taken: goes to the event of this handle, or to a new one. */
void ec_trace_node_value(ec_trace *trace, uint32_t debug_handle, bool is_output,
                         const ec_tensor *tensor);

/* One program deeper, or (-1) back. */
void ec_trace_nest(ec_trace *trace, int by);

#endif
