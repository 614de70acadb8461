/* Each field of a model is known, and read, ignored for a reason, or the default. */
#include "fields.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_DEPTH = 32, SHOWN_BYTES = 40, PLACE_BYTES = 64 };

typedef enum message {
#define ECM_MESSAGE(name) IN_##name,
#define ECM_FIELD(message, number, name, kind, arg)
#define ECM_IGNORED(message, number, name, kind, arg)
#define ECM_REFUSED(message, number, name, kind, arg)
#include "schema.def"
#undef ECM_MESSAGE
#undef ECM_FIELD
#undef ECM_IGNORED
#undef ECM_REFUSED
} message;

typedef enum use { READ, IGNORED, REFUSED } use;
typedef enum kind { VARINT, PACKED, STRING, STRINGS, BYTES, MESSAGE, MESSAGES } kind;

typedef struct field_row {
  uint32_t number;
  uint8_t message, use, kind;
  uint8_t arg; /* the largest value, or the message inside */
  const char *name;
} field_row;

#define ARG_VARINT(value) (value)
#define ARG_PACKED(value) (value)
#define ARG_STRING(value) (value)
#define ARG_STRINGS(value) (value)
#define ARG_BYTES(value) (value)
#define ARG_MESSAGE(name) IN_##name
#define ARG_MESSAGES(name) IN_##name
#define ROW(message, number, name, kind, arg, use)                                                 \
  {number, IN_##message, use, kind, ARG_##kind(arg), #name},

static const field_row rows[] = {
#define ECM_MESSAGE(name)
#define ECM_FIELD(message, number, name, kind, arg) ROW(message, number, name, kind, arg, READ)
#define ECM_IGNORED(message, number, name, kind, arg) ROW(message, number, name, kind, arg, IGNORED)
#define ECM_REFUSED(message, number, name, kind, arg) ROW(message, number, name, kind, arg, REFUSED)
#include "schema.def"
#undef ECM_MESSAGE
#undef ECM_FIELD
#undef ECM_IGNORED
#undef ECM_REFUSED
};

static const char *const names[] = {
#define ECM_MESSAGE(name) #name,
#define ECM_FIELD(message, number, name, kind, arg)
#define ECM_IGNORED(message, number, name, kind, arg)
#define ECM_REFUSED(message, number, name, kind, arg)
#include "schema.def"
};

typedef struct walk {
  const ec_backend_call *c;
  ect_text operation; /* the last one's type */
} walk;

static const field_row *find_row(message in, uint32_t number) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].message == in && rows[i].number == number) return &rows[i];
  return NULL;
}

/* Writes "model.mlmodel: operation conv: ". */
static const char *place_of(const walk *w, char out[PLACE_BYTES]) {
  snprintf(out, PLACE_BYTES, w->operation.size ? "operation %.*s: " : "",
           ECT_CLIP(w->operation, SHOWN_BYTES));
  return out;
}

static bool is_default(const ecm_field *f) { return !f->value && !f->bytes.size; }

static bool has_wire(const field_row *row, const ecm_field *f) {
  if (row->kind == PACKED && f->wire == ECM_VARINT) return true;
  return f->wire == (row->kind == VARINT ? ECM_VARINT : ECM_BYTES);
}

/* Checks a field without what is inside. */
static uint32_t check_field(const walk *w, message in, const field_row *row, const ecm_field *f) {
  char place[PLACE_BYTES];
  if (!row || row->use == REFUSED) {
    if (is_default(f)) return EC_BACKEND_OK;
    return EC_BACKEND_FAIL(w->c, EC_BACKEND_NOT_SUPPORTED,
                           "model.mlmodel: %sfield %u of %s%s%s is not supported",
                           place_of(w, place), (unsigned)f->number, names[in], row ? ", " : "",
                           row ? row->name : "");
  }
  if (!has_wire(row, f))
    return EC_BACKEND_FAIL(w->c, EC_BACKEND_INVALID_PROGRAM,
                           "model.mlmodel: %sfield %u of %s, %s, has wire type %u",
                           place_of(w, place), (unsigned)f->number, names[in], row->name,
                           (unsigned)f->wire);
  if (row->kind == VARINT && row->arg && f->value > row->arg)
    return EC_BACKEND_FAIL(w->c, EC_BACKEND_NOT_SUPPORTED,
                           "model.mlmodel: %s of %s is %" PRIu64 ", at most %u is known", row->name,
                           names[in], f->value, (unsigned)row->arg);
  return EC_BACKEND_OK;
}

static uint32_t check_message(walk *w, message in, ect_text rest, uint32_t depth) {
  ecm_field f;
  char place[PLACE_BYTES];
  if (depth == MAX_DEPTH)
    return EC_BACKEND_FAIL(w->c, EC_BACKEND_INVALID_PROGRAM,
                           "model.mlmodel: messages are nested more than %d deep", MAX_DEPTH);
  if (in == IN_Operation) w->operation = ecm_wire_find(rest, 1, &f) ? f.bytes : (ect_text){0};
  while (ecm_wire_next(&rest, &f)) {
    const field_row *row = find_row(in, f.number);
    EC_BACKEND_TRY(check_field(w, in, row, &f));
    if (row && row->use == READ && (row->kind == MESSAGE || row->kind == MESSAGES))
      EC_BACKEND_TRY(check_message(w, (message)row->arg, f.bytes, depth + 1));
  }
  if (!rest.size) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(w->c, EC_BACKEND_INVALID_PROGRAM,
                         "model.mlmodel: %s%s ends with %zu unreadable bytes", place_of(w, place),
                         names[in], rest.size);
}

uint32_t ecm_check_fields(ecm_model *m) {
  walk w = {.c = &m->g->c};
  return check_message(&w, IN_Model, m->files.model, 0);
}
