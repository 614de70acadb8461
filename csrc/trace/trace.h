/* A trace: events of a method's calls in memory, in the order in which they begin.
 *
 * The code that runs something begins an event, adds values, and stamps start and end. Only the
 * thread that holds the method's lock does so. Events that exceed the limit in bytes are counted
 * and dropped; functions accept the placeholder of a dropped event like any other. */
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

enum { EC_TRACE_NONE = UINT32_MAX }; /* no index */

/* Data that a trace keeps in addition to events and shapes: bits. */
enum {
  EC_TRACE_VALUES = 1, /* copies of results */
  EC_TRACE_RANGES = 2, /* the ranges of all arguments and results */
  EC_TRACE_ALTERS = 4  /* results may be changed: see ec_trace_set_alter */
};

/* An argument or a result: a tensor or a number. */
typedef struct ec_event_value {
  struct ec_event_value *next;
  const char *name; /* of the argument; "" if it has none */
  uint32_t item;    /* index in a list, or EC_TRACE_NONE */
  uint32_t slot;    /* index of the method's value; EC_TRACE_NONE inside delegates */
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
  uint16_t depth;              /* of programs inside payloads; 0: the method itself */
  uint32_t chain, instruction; /* an ETRecord's debug handles refer to instruction numbers */
  uint32_t delegate;           /* index in the file */
  uint32_t debug_handle;       /* of a node */
  uint32_t number;             /* of a node, in its delegate's call */
  uint64_t start, duration;    /* ns of CLOCK_MONOTONIC; nodes are placed end to end */
  const char *name;            /* operator, backend, node, method */
  ec_event_value *values, **last;
} ec_event;

typedef struct ec_trace ec_trace;

/* `keeps`: EC_TRACE_* bits. Returns NULL without memory. */
ec_trace *ec_trace_new(unsigned keeps, size_t max_bytes);
void ec_trace_free(ec_trace *trace); /* NULL is allowed */
/* Limits copies of results to `max_data` of the max_bytes; the default is no separate limit. */
void ec_trace_bound_data(ec_trace *trace, size_t max_data);

/* Calls `fn` with each result of an instruction or node, before it is copied: the `output`-th of
 * its event. It may change the data, with which the call goes on. Sets EC_TRACE_ALTERS. */
typedef void (*ec_trace_alter_fn)(void *user, const ec_event *event, uint32_t output,
                                  const ec_tensor *tensor);
void ec_trace_set_alter(ec_trace *trace, ec_trace_alter_fn fn, void *user);

unsigned ec_trace_keeps(const ec_trace *trace);
const ec_event *ec_trace_first(const ec_trace *trace);
/* Numbers of dropped events, and of values whose data was dropped. */
size_t ec_trace_dropped_events(const ec_trace *trace);
size_t ec_trace_dropped_values(const ec_trace *trace);

const char *ec_event_kind_name(ec_event_kind kind);

/* Appends an event with kind, name (copied), chain, instruction and delegate of `head`. Never
 * returns NULL. */
ec_event *ec_trace_begin(ec_trace *trace, const ec_event *head);
uint64_t ec_trace_now(void);          /* ns of CLOCK_MONOTONIC */
void ec_trace_start(ec_event *event); /* now */
void ec_trace_end(ec_event *event, bool failed);

/* Adds a tensor, with its data if it is an output and values are kept, and its range if ranges are.
 * Name (copied), item, slot and is_output are those of `head`. */
void ec_trace_tensor(ec_trace *trace, ec_event *event, const ec_event_value *head,
                     const ec_tensor *tensor);
void ec_trace_scalar(ec_trace *trace, ec_event *event, const char *name, ec_scalar scalar);

/* The delegate to which nodes are added, the start time of its next node and its number. */
typedef struct ec_trace_scope {
  ec_event *delegate;
  uint64_t clock;
  uint32_t nodes;
} ec_trace_scope;

/* Enters a started delegate (NULL: anything without nodes). Returns the previous scope. */
ec_trace_scope ec_trace_enter(ec_trace *trace, ec_event *delegate);
void ec_trace_leave(ec_trace *trace, ec_trace_scope outer);

/* Adds a finished node of the current delegate. */
void ec_trace_node(ec_trace *trace, uint32_t debug_handle, const char *name, uint64_t duration);
/* Adds a value that a node computed or read, to the event with this handle or to a new one. */
void ec_trace_node_value(ec_trace *trace, uint32_t debug_handle, bool is_output,
                         const ec_tensor *tensor);

/* Changes the nesting depth of programs by 1 or -1. */
void ec_trace_nest(ec_trace *trace, int by);

#endif
