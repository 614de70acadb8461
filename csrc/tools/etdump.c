/* A trace as a FlatBuffer ED00 with a size in front: a run for each call, an event for each
 * instruction and node. Names and order are those of the official runtime. */
#include "tools/etdump.h"

#include "core/small.h"

#ifdef EC_SMALL
#include <stdio.h>

etdump *etdump_begin(ecr_method *method, ecr_error *error) {
  (void)method;
  snprintf(error->message, sizeof error->message, "a small build has no traces");
  return NULL;
}

bool etdump_end(etdump *dump, const char *path) {
  (void)dump, (void)path;
  return false;
}
#else
#include <stdio.h>
#include <string.h>

#include "api/method.h"
#include "core/alloc.h"
#include "format/fb_write.h"

enum { MAX_BYTES = 1 << 28, TEXT = 200 };

struct etdump {
  ecr_method *method;
  ec_trace *trace;
};

static bool set_trace(ecr_method *method, ec_trace *trace) {
  ec_method *m = ecr_method_inside(method);
  if (ec_method_lock(m, NULL, NULL) != EC_OK) return false;
  ec_method_set_trace(m, trace);
  ec_method_unlock(m);
  return true;
}

etdump *etdump_begin(ecr_method *method, ecr_error *error) {
  etdump *dump = ec_alloc_zeroed(sizeof *dump);
  if (dump) *dump = (etdump){method, ec_trace_new(0, MAX_BYTES)};
  if (dump && dump->trace && set_trace(method, dump->trace)) return dump;
  if (dump) ec_trace_free(dump->trace);
  ec_free(dump);
  snprintf(error->message, sizeof error->message, "no memory for a trace");
  return NULL;
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct record {
  const char *name;       /* NULL: none */
  const char *identifier; /* of a node, in place of its handle */
  const ec_event *event;
  uint32_t chain, instruction;
  bool is_call;
} record;

static void put_string(ec_fb_writer *b, const ec_fb_slot *fields, size_t field, const char *text) {
  if (text) ec_fb_link(b, fields[field].at, ec_fb_put_string(b, text, strlen(text)));
}

static size_t put_profile_event(ec_fb_writer *b, const record *r) {
  const ec_event *e = r->event;
  ec_fb_slot fields[8];
  size_t count = 0, name = 0, identifier = 0;
  if (r->name) fields[name = count++] = (ec_fb_slot){0, 4, 0, 0};
  if (r->identifier) fields[identifier = count++] = (ec_fb_slot){4, 4, 0, 0};
  fields[count++] = (ec_fb_slot){1, 4, r->is_call ? UINT32_MAX : r->chain, 0};
  fields[count++] = (ec_fb_slot){2, 4, r->is_call ? 0 : r->instruction, 0};
  if (e->kind == EC_EVENT_NODE && !r->identifier)
    fields[count++] = (ec_fb_slot){3, 4, e->debug_handle, 0};
  fields[count++] = (ec_fb_slot){6, 8, e->start, 0};
  fields[count++] = (ec_fb_slot){7, 8, e->start + e->duration, 0};
  const size_t table = ec_fb_put_table(b, fields, count);
  put_string(b, fields, name, r->name);
  put_string(b, fields, identifier, r->identifier);
  return table;
}

/* A vector of offsets whose length is known at its end: room for `most`, linked at `slot`. */
typedef struct vector {
  ec_fb_writer *b;
  size_t at, count;
} vector;

static vector open_vector(ec_fb_writer *b, size_t slot, size_t most) {
  const size_t at = ec_fb_put_vector(b, NULL, most, 4);
  ec_fb_link(b, slot, at);
  return (vector){b, at, 0};
}

static void add_record(vector *events, const record *r) {
  ec_fb_writer *b = events->b;
  ec_fb_slot field = {0, 4, 0, 0};
  ec_fb_link(b, events->at + 4 + 4 * events->count++, ec_fb_put_table(b, &field, 1));
  ec_fb_link(b, field.at, put_profile_event(b, r));
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_prim(const char *name) {
  static const char *const prefixes[] = {"executorch_prim::", "aten::sym_",
                                         "aten::_local_scalar_dense"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

/* Adds the events of a kernel call: the kernel, and the call. */
static void add_instruction(vector *events, const ec_event *e) {
  static const char *const calls[] = {
      [EC_EVENT_KERNEL] = "OPERATOR_CALL", [EC_EVENT_DELEGATE] = "DELEGATE_CALL",
      [EC_EVENT_MOVE] = "MOVE_CALL",       [EC_EVENT_JUMP] = "JF_CALL",
      [EC_EVENT_FREE] = "FREE_CALL",
  };
  char text[TEXT];
  record r = {.event = e, .chain = e->chain, .instruction = e->instruction};
  if (e->kind == EC_EVENT_KERNEL && !is_prim(e->name)) {
    const char *colons = strstr(e->name, "::");
    snprintf(text, sizeof text, "native_call_%s", colons ? colons + 2 : e->name);
    r.name = text;
    add_record(events, &r);
  }
  r.name = calls[e->kind];
  add_record(events, &r);
}

/* Adds a node: by its handle, or by its name and number among those of the delegate. */
static void add_node(vector *events, const ec_event *delegate, const ec_event *e) {
  char text[TEXT];
  record r = {.event = e, .name = e->name, .chain = delegate->chain,
              .instruction = delegate->instruction};
  if (strcmp(delegate->name, "XnnpackBackend") == 0 || e->debug_handle == UINT32_MAX) {
    size_t number = 1;
    for (const ec_event *f = delegate->next; f && f != e; f = f->next)
      number += strcmp(f->name, e->name) == 0;
    snprintf(text, sizeof text, "%.180s #%zu", e->name, number);
    r.identifier = text;
    r.name = NULL;
  }
  add_record(events, &r);
}

static bool is_begin(const ec_event *e) { return e->kind == EC_EVENT_EXECUTE && !e->depth; }

/* Adds the events of one call, the inner ones first. Returns the first event after it. */
static const ec_event *add_call(vector *events, const ec_event *call) {
  const ec_event *delegate = NULL, *e = call->next;
  for (; e && !is_begin(e); e = e->next) {
    if (delegate && (e->kind == EC_EVENT_NODE || e->depth)) {
      if (e->kind == EC_EVENT_NODE) add_node(events, delegate, e);
      continue;
    }
    if (e->kind == EC_EVENT_NODE || e->kind == EC_EVENT_EXECUTE) continue;
    if (delegate) add_instruction(events, delegate);
    delegate = e->kind == EC_EVENT_DELEGATE ? e : NULL;
    if (!delegate) add_instruction(events, e);
  }
  if (delegate) add_instruction(events, delegate);
  if (!call->failed)
    add_record(events, &(record){.name = "Method::execute", .event = call, .is_call = true});
  return e;
}

static const ec_event *put_run(ec_fb_writer *b, size_t slot, const ec_event *call) {
  ec_fb_slot fields[] = {{0, 4, 0, 0}, {3, 4, 0, 0}};
  size_t most = 1;
  for (const ec_event *e = call->next; e && !is_begin(e); e = e->next) most += 2;
  ec_fb_link(b, slot, ec_fb_put_table(b, fields, 2));
  put_string(b, fields, 0, "Execute");
  vector events = open_vector(b, fields[1].at, most);
  const ec_event *next = add_call(&events, call);
  ec_fb_poke(b, events.at, events.count, 4);
  return next;
}

static void put_dump(ec_fb_writer *b, const ec_trace *trace) {
  enum { ROOT_AT = 4, PREFIX = 12 };
  ec_fb_slot fields[] = {{0, 4, 0, 0}, {1, 4, 0, 0}};
  size_t runs = 0;
  ec_fb_put(b, "\0\0\0\0\0\0\0\0ED00", PREFIX, 8);
  for (const ec_event *e = ec_trace_first(trace); e; e = e->next) runs += is_begin(e);
  ec_fb_link(b, ROOT_AT, ec_fb_put_table(b, fields, 2));
  vector list = open_vector(b, fields[1].at, runs);
  const ec_event *e = ec_trace_first(trace);
  for (size_t i = 0; e && i < runs; i++) {
    while (e && !is_begin(e)) e = e->next;
    if (e) e = put_run(b, list.at + 4 + 4 * i, e);
  }
  ec_fb_poke(b, 0, b->size - 4, 4);
}

bool etdump_end(etdump *dump, const char *path) {
  ec_fb_writer b = {.alloc = ec_alloc_zeroed, .free = ec_free};
  bool written = set_trace(dump->method, NULL);
  if (path) {
    put_dump(&b, dump->trace);
    FILE *file = b.failed ? NULL : fopen(path, "wb");
    written = written && file && fwrite(b.data, 1, b.size, file) == b.size;
    if (file && fclose(file) != 0) written = false;
  }
  ec_free(b.data);
  ec_trace_free(dump->trace);
  ec_free(dump);
  return written;
}
#endif
