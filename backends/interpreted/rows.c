/* Rows of operators, and the items of their arguments. */
#include "rows.h"

#include <string.h>

#include "pack.h"

const ect_row *ect_find_row(const ect_row *rows, size_t count, ect_text name) {
  for (size_t i = 0; i < count; i++)
    if (strlen(rows[i].name) == name.size && memcmp(rows[i].name, name.data, name.size) == 0)
      return &rows[i];
  return NULL;
}

/* ---- conversions ----------------------------------------------------------------------------- */

int32_t ect_letter_dtype(char letter, int32_t dtype) {
  switch (letter) {
  case 'q': return EC_DTYPE_INT64;
  case 'd': return EC_DTYPE_FLOAT64;
  case 'h': return dtype == EC_DTYPE_FLOAT16 ? EC_DTYPE_FLOAT32 : dtype;
  default: return dtype;
  }
}

int64_t ect_convert(ect_program *p, int64_t value, int32_t dtype) {
  const ect_tensor *t = p->failed ? NULL : ect_tensor_at(p, value);
  if (!t || t->dtype == dtype) return value;
  const int64_t out = ect_add_like(p, t, dtype);
  ect_add_copy(p, value, out, NULL);
  return out;
}

/* Converts a tensor, or those of a list, which becomes one of optional tensors. */
static int64_t convert_value(ect_program *p, int64_t value, char letter) {
  if (value < 0 || p->failed || !strchr("qdh", letter)) return value;
  const ect_value v = p->values[value];
  if (v.kind == ECT_TENSOR)
    return ect_convert(p, value, ect_letter_dtype(letter, ect_tensor_at(p, value)->dtype));
  if (v.kind != ECT_TENSOR_LIST && v.kind != ECT_OPTIONAL_TENSOR_LIST) return value;
  int64_t *items = ect_own(p, v.as.list.count * sizeof *items);
  for (size_t i = 0; items && i < v.as.list.count; i++) {
    const int64_t item = p->items[v.as.list.first + i];
    items[i] = item < 0 ? item : convert_value(p, item, letter);
  }
  return items ? ect_add_list(p, ECT_OPTIONAL_TENSOR_LIST, items, v.as.list.count) : value;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Reads an item, and returns the text after it. */
static const char *next_item(const char *at, uint32_t *index, ect_item *out) {
  size_t size = 0;
  *out = (ect_item){.letter = *at++, .index = *index};
  const bool has_name = *at == '(', has_digit = *at >= '0' && *at <= '9';
  if (has_name) size = strcspn(++at, ")");
  else if (has_digit) size = 1;
  memcpy(out->source, at, size < sizeof out->source ? size : 0);
  *index += !size && !strchr("#$NTF", out->letter);
  return at + size + has_name;
}

uint32_t ect_read_items(ect_program *p, const char *items, const int64_t *results,
                        ect_read_fn *read, void *node, int64_t *args, size_t *count,
                        uint32_t *taken) {
  *count = *taken = 0;
  while (*items && *items != ';' && *count < ECT_MAX_ARGS) {
    ect_item item;
    int64_t *arg = &args[*count];
    items = next_item(items, taken, &item);
    switch (item.letter) {
    case '.': continue;
    case '#': *arg = ect_add_int(p, item.source[0] - '0'); break;
    case '$': *arg = results[item.source[0] - '0']; break;
    case 'N': *arg = ect_add_none(p); break;
    case 'T':
    case 'F': *arg = ect_add_bool(p, item.letter == 'T'); break;
    default:
      EC_BACKEND_TRY(read(node, &item, arg));
      *arg = convert_value(p, *arg, item.letter);
    }
    ++*count;
  }
  return EC_BACKEND_OK;
}
