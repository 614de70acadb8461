/* Results that nothing reads: their conversions are removed. */
#include "unread.h"

/* Marks the values that calls read, and items of all lists. */
static void mark_read(const ect_program *p, bool *is_read) {
  for (size_t c = 0; c < p->call_count; c++) {
    const ect_call *call = &p->calls[c];
    const size_t count = call->count - call->is_copy;
    for (size_t i = 0; i < count; i++) is_read[p->items[call->first + i]] = true;
  }
  for (size_t v = 0; v < p->value_count; v++) {
    const ect_value *list = &p->values[v];
    if (list->kind != ECT_TENSOR_LIST && list->kind != ECT_OPTIONAL_TENSOR_LIST) continue;
    for (size_t i = 0; i < list->as.list.count; i++) {
      const int64_t item = p->items[list->as.list.first + i];
      if (item >= 0) is_read[item] = true;
    }
  }
}

static bool is_needed(ect_program *p, const ect_call *call, const bool *is_read) {
  if (!call->is_copy) return true;
  const int64_t to = p->items[call->first + call->count - 1];
  return is_read[to] || ect_tensor_at(p, to)->role != ECT_COMPUTED;
}

/* Removes calls; `places` receives where each one has gone. */
static void drop_calls(ect_program *p, const bool *is_read, uint32_t *places) {
  size_t kept = 0;
  for (size_t c = 0; c < p->call_count; c++) {
    places[c] = (uint32_t)kept;
    if (is_needed(p, &p->calls[c], is_read)) p->calls[kept++] = p->calls[c];
  }
  places[p->call_count] = (uint32_t)kept;
  p->call_count = kept;
  for (size_t c = 0; c < kept; c++)
    if (p->calls[c].is_jump) p->calls[c].target = places[p->calls[c].target];
}

static bool drop_unread(ect_program *p) {
  const ec_host *host = p->host;
  if (p->failed) return false;
  bool *is_read = host->alloc(p->value_count + 1);
  uint32_t *places = host->alloc((p->call_count + 1) * sizeof *places);
  const bool ok = is_read && places;
  if (ok) {
    for (size_t i = 0; i < p->output_count; i++) is_read[p->outputs[i]] = true;
    mark_read(p, is_read);
    drop_calls(p, is_read, places);
  }
  host->free(is_read);
  host->free(places);
  return ok;
}

uint32_t ect_finish(ec_host_call *call, ect_program *p) {
  ect_copy_shared(p);
  return drop_unread(p) ? (uint32_t)EC_BACKEND_OK
                        : p->host->fail(call, EC_BACKEND_ALLOCATION_FAILED,
                                        "no memory for the payload's program");
}
