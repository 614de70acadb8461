/* Delegates: each backend is looked up and receives its payload, compile specs and options. */
#include "runtime/load/delegates.h"

#include <string.h>

#include "backend/registry.h"
#include "core/small.h"
#include "runtime/host_call.h"
#include "runtime/load/cost.h"
#include "runtime/load/options.h"

/* Returns the length of a text that can be shown; 0: it cannot. */
static int shown_length(const ec_backend_spec *spec) {
  enum { MAX_NAME = 80 };
  const char *text = spec->value;
  for (size_t i = 0; i < spec->size; i++)
    if (text[i] < ' ' || text[i] > '~') return 0;
  return spec->size > MAX_NAME ? 0 : (int)spec->size;
}

/* Looks the backend up. Messages have the TOSA specification of a delegate for Arm's NPUs, with
 * which its graph can be lowered for TOSABackend. */
static ec_status require_backend(const ec_delegate_row *row, const ec_backend **out,
                                 ec_error *err) {
  const ec_status status = ec_backend_require(row->id, out, err);
  for (size_t i = 0; !EC_IS_SMALL && status != EC_OK && i < row->spec_count; i++) {
    const int length = shown_length(&row->specs[i]);
    if (length && strcmp(row->specs[i].key, "tosa_spec") == 0)
      ec_error_append(err, "; its tosa_spec is '%.*s'", length,
                      (const char *)row->specs[i].value);
  }
  return status;
}

/* Looks the backend up, and collects what it receives. */
static ec_status find_delegate(ec_method *m, const ec_rows *rows, uint32_t index, ec_delegate *d,
                               ec_error *err) {
  ec_delegate_row row;
  EC_TRY(ec_decode_delegate(rows, index, &m->arena, &row, err));
  EC_TRY(require_backend(&row, &d->backend, err));
  d->init = (ec_backend_init){.method = m->name, .payload = row.payload.data,
                              .payload_size = row.payload.size, .specs = row.specs,
                              .spec_count = row.spec_count, .program = m->program, .instance = m};
  return ec_delegate_options(m, d, err);
}

ec_status ec_find_delegates(ec_method *m, const ec_rows *rows, ec_error *err) {
  const uint32_t count = rows->delegates.count;
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *m->delegates, "delegates", &m->delegates, err));
  EC_TRY(ec_load_options(m, rows, err));
  for (uint32_t i = 0; i < count; i++) {
    ec_status status = find_delegate(m, rows, i, &m->delegates[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "delegate %u", i);
  }
  m->delegate_count = count;
  return EC_OK;
}

static ec_status init_delegate(ec_method *m, ec_delegate *d, ec_error *err) {
  EC_TRY(ec_charge_reading(d->init.payload_size, err));
  ec_host_call call = ec_host_call_of(m, &m->scratch, err);
  ec_status status =
      (ec_status)d->backend->init(d->backend, &ec_host_table, &call, &d->init, &d->handle);
  ec_arena_reset(&m->scratch);
  if (status != EC_OK) return ec_fail_in(err, status, "%s", d->backend->id);
  d->ready = true;
  d->delegated = call.delegated;
  m->uses_kv_cache |= call.uses_kv_cache;
  return EC_OK;
}

ec_status ec_init_delegates(ec_method *m, ec_error *err) {
  for (size_t i = 0; i < m->delegate_count; i++) {
    ec_error_clear(err);
    ec_status status = init_delegate(m, &m->delegates[i], err);
    if (status != EC_OK) return ec_fail_in(err, status, "delegate %zu", i);
  }
  return EC_OK;
}
