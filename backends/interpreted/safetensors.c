/* The header of a safetensors file: a length of 8 bytes, then JSON. */
#include "safetensors.h"

#include <stdlib.h>

#include "core/checked.h"
#include "grow.h"

enum { LENGTH_BYTES = 8, MAX_RANK = 16 };

static const struct {
  const char *code;
  int32_t dtype;
} dtypes[] = {
    {"F64", EC_DTYPE_FLOAT64},   {"F32", EC_DTYPE_FLOAT32},    {"F16", EC_DTYPE_FLOAT16},
    {"BF16", EC_DTYPE_BFLOAT16}, {"I64", EC_DTYPE_INT64},      {"I32", EC_DTYPE_INT32},
    {"I16", EC_DTYPE_INT16},     {"I8", EC_DTYPE_INT8},        {"U8", EC_DTYPE_UINT8},
    {"U16", EC_DTYPE_UINT16},    {"U32", EC_DTYPE_UINT32},     {"U64", EC_DTYPE_UINT64},
    {"BOOL", EC_DTYPE_BOOL},     {"C64", EC_DTYPE_COMPLEX64},
};

typedef struct reader {
  const ec_backend_call *c;
  const char *what;
  ect_text data; /* after the header */
  ect_json json;
  ect_tensors *out;
} reader;

#define REFUSE(r, ...) EC_BACKEND_FAIL((r)->c, EC_BACKEND_INVALID_PROGRAM, __VA_ARGS__)

/* Reads the two offsets of a tensor's bytes. */
static uint32_t read_offsets(reader *r, uint32_t list, ect_stored *t) {
  const ect_json *j = &r->json;
  const uint32_t first = list ? ect_json_first(j, list) : 0;
  const uint32_t second = first ? ect_json_next(j, list, first) : 0;
  uint64_t begin, end;
  if (!ect_json_number(j, first, &begin) || !ect_json_number(j, second, &end) ||
      ect_json_next(j, list, second))
    return REFUSE(r, "%s: tensor '%.*s' has no data_offsets, two numbers", r->what,
                  ECT_CLIP(t->key, 80));
  if (begin > end || end > r->data.size)
    return REFUSE(r, "%s: tensor '%.*s' has the bytes %llu to %llu of %zu", r->what,
                  ECT_CLIP(t->key, 80), (unsigned long long)begin, (unsigned long long)end,
                  r->data.size);
  t->data = r->data.data + begin;
  t->size = (size_t)(end - begin);
  return EC_BACKEND_OK;
}

/* Reads the dtype and shape, which have to fit the bytes. */
static uint32_t read_type(reader *r, uint32_t dtype, uint32_t shape, ect_stored *t) {
  const ect_json *j = &r->json;
  t->dtype = -1;
  for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
    if (ect_json_equals(j, dtype, dtypes[i].code)) {
      t->code = dtypes[i].code;
      t->dtype = dtypes[i].dtype;
    }
  size_t bytes = t->code ? ec_backend_dtype_size(t->dtype) : 0;
  if (!dtype || !shape || j->tokens[shape].type != ECT_JSON_ARRAY)
    return REFUSE(r, "%s: tensor '%.*s' has no dtype or no shape", r->what, ECT_CLIP(t->key, 80));
  for (uint32_t at = ect_json_first(j, shape); at; at = ect_json_next(j, shape, at)) {
    uint64_t size;
    if (t->rank == MAX_RANK || !ect_json_number(j, at, &size) || size > INT64_MAX)
      return REFUSE(r, "%s: tensor '%.*s' has a shape that is not at most %d sizes", r->what,
                    ECT_CLIP(t->key, 80), MAX_RANK);
    t->sizes[t->rank++] = (int64_t)size;
    if (!ec_mul_size(bytes, (size_t)size, &bytes)) bytes = SIZE_MAX;
  }
  if (!t->code || bytes == t->size) return EC_BACKEND_OK;
  return REFUSE(r, "%s: tensor '%.*s' has %zu bytes, its dtype and shape need %zu", r->what,
                ECT_CLIP(t->key, 80), t->size, bytes);
}

static uint32_t read_tensor(reader *r, ect_text key, uint32_t value) {
  const ect_json *j = &r->json;
  ect_tensors *all = r->out;
  ect_stored t = {.key = key};
  if (j->tokens[value].type != ECT_JSON_OBJECT)
    return REFUSE(r, "%s: tensor '%.*s' is not an object", r->what, ECT_CLIP(key, 80));
  if (ect_names_find(&all->keys, key) != UINT32_MAX)
    return REFUSE(r, "%s: two tensors are named '%.*s'", r->what, ECT_CLIP(key, 80));
  EC_BACKEND_TRY(read_offsets(r, ect_json_member(j, value, "data_offsets"), &t));
  EC_BACKEND_TRY(
      read_type(r, ect_json_member(j, value, "dtype"), ect_json_member(j, value, "shape"), &t));
  ect_stored *moved = ect_grow(r->c->host, all->items, &all->room, all->count, sizeof *moved);
  if (moved) all->items = moved;
  if (!moved || !ect_names_set(&all->keys, key, (uint32_t)all->count))
    return EC_BACKEND_FAIL(r->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for tensors");
  all->items[all->count++] = t;
  return EC_BACKEND_OK;
}

static int compare_places(const void *a, const void *b) {
  const ect_stored *x = a, *y = b;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  return (x->size > y->size) - (x->size < y->size);
}

/* Sorts the tensors by place; none may overlap. */
static uint32_t check_overlap(reader *r) {
  ect_tensors *t = r->out;
  const ect_stored *last = t->items; /* whose end is the farthest so far */
  if (t->count) qsort(t->items, t->count, sizeof *t->items, compare_places);
  for (size_t i = 0; i < t->count; i++) {
    const ect_stored *item = &t->items[i];
    (void)ect_names_set(&t->keys, item->key, (uint32_t)i);
    if (i && item->data < last->data + last->size)
      return REFUSE(r, "%s: tensors '%.*s' and '%.*s' overlap", r->what, ECT_CLIP(last->key, 80),
                    ECT_CLIP(item->key, 80));
    if (item->data + item->size >= last->data + last->size) last = item;
  }
  return EC_BACKEND_OK;
}

static uint32_t read_members(reader *r) {
  const ect_json *j = &r->json;
  if (j->tokens[0].type != ECT_JSON_OBJECT) return REFUSE(r, "%s: not an object", r->what);
  for (uint32_t key = ect_json_first(j, 0); key;) {
    const uint32_t value = j->tokens[key].next;
    ect_text text;
    if (!ect_json_text(j, key, &text))
      return REFUSE(r, "%s: key %u is not a text", r->what, (unsigned)key);
    if (!ect_text_is(text, "__metadata__")) EC_BACKEND_TRY(read_tensor(r, text, value));
    key = ect_json_next(j, 0, value);
  }
  return check_overlap(r);
}

uint32_t ect_tensors_open(const ec_backend_call *c, ect_text file, const char *what,
                          ect_tensors *out) {
  reader r = {.c = c, .what = what, .out = out};
  uint64_t length = 0;
  *out = (ect_tensors){.keys.host = c->host};
  for (size_t i = LENGTH_BYTES; i-- > 0 && file.size >= LENGTH_BYTES;)
    length = length << 8 | file.data[i];
  if (file.size < LENGTH_BYTES || length > file.size - LENGTH_BYTES)
    return REFUSE(&r, "%s: a header of %llu bytes is not inside its %zu bytes", what,
                  (unsigned long long)length, file.size);
  const ect_text header = {file.data + LENGTH_BYTES, (size_t)length};
  r.data = (ect_text){header.data + header.size, file.size - LENGTH_BYTES - header.size};
  uint32_t status = ect_json_open(c, header, false, what, &r.json);
  if (status == EC_BACKEND_OK) status = ect_json_decode(&r.json, &out->texts);
  if (status == EC_BACKEND_OK) status = read_members(&r);
  ect_json_free(&r.json);
  return status;
}

void ect_tensors_free(const ec_host *host, ect_tensors *t) {
  host->free(t->items);
  host->free(t->texts);
  ect_names_free(&t->keys);
}

const ect_stored *ect_tensors_find(const ect_tensors *t, ect_text key) {
  const uint32_t number = ect_names_find(&t->keys, key);
  return number == UINT32_MAX ? NULL : &t->items[number];
}
