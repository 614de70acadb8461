/* Constants: bytes after the FlatBuffer, inside it (old files), or in the program's named data.
 *
 * XNNPACK may read XNN_EXTRA_BYTES beyond the end of its inputs. That is harmless within a page,
 * and where the file goes on. Data at the end of a file that ends with a page is copied. So is data
 * that is not aligned to 16 bytes, which is rare. */
#include "payload/constants.h"

#include <stddef.h>
#include <string.h>

#include "call.h"
#include "core/half.h"
#include "core/checked.h"
#include "payload/payload.h"

enum { ALIGNMENT = 16, PAGE = 4096 };

/* True if the XNN_EXTRA_BYTES after [at, at + size) reach another page. */
static bool crosses_page(const void *at, size_t size) {
  uintptr_t end = (uintptr_t)at + size;
  return size == 0 || (end - 1) / PAGE != (end - 1 + ECX_EXTRA) / PAGE;
}

bool ecx_ends_unreadable(const ecx_call *c, const void *at, size_t size) {
  return crosses_page(at, size) &&
         (c->host->struct_size <= offsetof(ec_host, can_read) ||
          !c->host->can_read(c->call, at, size + ECX_EXTRA));
}

static uint32_t make_readable(const ecx_call *c, ecx_data *data) {
  const bool has_room = data->room > data->size && data->room - data->size >= ECX_EXTRA;
  size_t bytes;
  if ((uintptr_t)data->at % ALIGNMENT == 0 &&
      (has_room || !ecx_ends_unreadable(c, data->at, data->size)))
    return EC_BACKEND_OK;
  data->copy = ec_add_size(data->size, ECX_EXTRA, &bytes) ? c->host->alloc(bytes) : NULL;
  if (!data->copy)
    return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a constant of %zu bytes",
                    data->size);
  if (data->size) memcpy(data->copy, data->at, data->size);
  data->at = data->copy;
  return EC_BACKEND_OK;
}

static uint32_t find_named(const ecx_call *c, const char *key, const char *what, ecx_data *out) {
  out->key = key;
  out->is_of_program = true;
  uint32_t status = c->host->named_data(c->call, key, &out->at, &out->size);
  if (status == EC_BACKEND_NOT_FOUND)
    return ecx_fail(c, status,
                    "%s is in named data '%.80s', missing in the program and in the data files: "
                    "was the program exported with a separate .ptd file?",
                    what, key);
  return status;
}

/* Finds an entry of constant_data: a key, or a location after the FlatBuffer. */
static uint32_t find_entry(const ecx_call *c, const ecx_payload *payload, ec_fb_table table,
                           const char *what, ecx_data *out) {
  const char *key = ec_fb_string(table, ECX_ConstantData_named_key);
  uint64_t offset = ec_fb_u64(table, ECX_ConstantData_offset);
  uint64_t size = ec_fb_u64(table, ECX_ConstantData_size);
  if (key && key[0]) return find_named(c, key, what, out);
  if (!ec_in_range(offset, size, payload->constants_size))
    return ecx_fail(c, EC_BACKEND_INVALID_PROGRAM,
                    "%s: %llu bytes at offset %llu lie outside the %zu bytes of constants", what,
                    (unsigned long long)size, (unsigned long long)offset, payload->constants_size);
  out->at = payload->constants + offset;
  out->size = (size_t)size;
  return EC_BACKEND_OK;
}

uint32_t ecx_constant(const ecx_call *c, const ecx_payload *payload, uint32_t index,
                      const char *what, ecx_data *out) {
  bool old = !payload->constants;
  if (payload->memory && index < payload->memory_count) {
    *out = payload->memory[index];
    out->copy = NULL;
    return make_readable(c, out);
  }
  ec_fb_vec vec =
      ec_fb_vector(payload->root, old ? ECX_Graph_constant_buffer : ECX_Graph_constant_data);
  *out = (ecx_data){0};
  if (index >= vec.count)
    return ecx_fail(c, EC_BACKEND_INVALID_PROGRAM, "%s: constant %u of %u", what, (unsigned)index,
                    (unsigned)vec.count);
  ec_fb_table table = ec_fb_vec_table(vec, index);
  if (old) {
    ec_fb_vec bytes = ec_fb_vector(table, ECX_Buffer_storage);
    out->at = bytes.items;
    out->size = bytes.count;
  } else {
    ECX_TRY(find_entry(c, payload, table, what, out));
  }
  if (!out->at) out->size = 0;
  return make_readable(c, out);
}

uint32_t ecx_constant_inline(const ecx_call *c, const void *at, size_t size, ecx_data *out) {
  *out = (ecx_data){.at = at, .size = at ? size : 0};
  return make_readable(c, out);
}

void ecx_data_close(const ec_host *host, ecx_data *data) {
  if (data->copy) host->free(data->copy);
  *data = (ecx_data){.key = data->key};
}

/* Replaces data by a copy that it owns. */
static void replace_data(const ecx_call *c, ecx_data *data, void *copy, size_t size) {
  if (data->copy) c->host->free(data->copy);
  data->at = data->copy = copy;
  data->size = size;
}

uint32_t ecx_widen(const ecx_call *c, ecx_data *data, bool is_float16) {
  size_t count = data->size / 2;
  float *wide = count <= SIZE_MAX / 8 ? c->host->alloc(count * sizeof *wide + ECX_EXTRA) : NULL;
  if (!wide)
    return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu float32 weights", count);
  for (size_t i = 0; i < count; i++) {
    uint16_t narrow;
    memcpy(&narrow, (const uint8_t *)data->at + i * 2, 2);
    wide[i] = is_float16 ? ec_f16_to_f32(narrow) : ec_bf16_to_f32(narrow);
  }
  replace_data(c, data, wide, count * sizeof *wide);
  return EC_BACKEND_OK;
}

uint32_t ecx_widen_halves(const ecx_call *c, ecx_data *data, size_t rows, size_t columns) {
  enum { ZERO_POINT = 8, HALF = 4, MASK = 15 };
  const uint8_t *bytes = data->at;
  const size_t stride = (columns + 1) / 2, count = rows * columns;
  int8_t *wide = c->host->alloc(count + ECX_EXTRA);
  if (!wide)
    return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu int8 weights", count);
  for (size_t row = 0; row < rows; row++)
    for (size_t i = 0; i < columns; i++)
      wide[row * columns + i] =
          (int8_t)((bytes[row * stride + i / 2] >> (i % 2 * HALF) & MASK) - ZERO_POINT);
  replace_data(c, data, wide, count);
  return EC_BACKEND_OK;
}
