/* Names and sizes of scalar types. */
#include "core/dtype.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

typedef struct dtype_row {
  size_t size;
  const char *name, *torch_name;
} dtype_row;

static const dtype_row rows[EC_DTYPE_COUNT] = {
#define EC_DTYPE(NAME, id, bytes, name, torch_name, category) [id] = {bytes, name, torch_name},
#include "core/dtype.def"
#undef EC_DTYPE
    /* Ids that the format knows and no kernel supports: size 0, a name for messages. */
    [8] = {0, "complex32", "ComplexHalf"},
    [12] = {0, "qint8", "QInt8"},
    [13] = {0, "quint8", "QUInt8"},
    [14] = {0, "qint32", "QInt32"},
    [16] = {0, "quint4x2", "QUInt4x2"},
    [17] = {0, "quint2x4", "QUInt2x4"},
    [18] = {0, "bits1x8", "Bits1x8"},
    [19] = {0, "bits2x4", "Bits2x4"},
    [20] = {0, "bits4x2", "Bits4x2"},
    [21] = {0, "bits8", "Bits8"},
    [22] = {0, "bits16", "Bits16"},
};

static const dtype_row unknown = {0, "unknown dtype", "Unknown"};

static atomic_bool has_dropped_call;

uintptr_t ec_dropped_loop(void) {
  atomic_store(&has_dropped_call, true);
  return 0;
}

bool ec_dropped_loop_ran(void) { return atomic_exchange(&has_dropped_call, false); }

static const dtype_row *row_of(ec_dtype dtype) {
  unsigned id = (unsigned)dtype;
  return id < EC_DTYPE_COUNT && rows[id].name ? &rows[id] : &unknown;
}

size_t ec_dtype_size(ec_dtype dtype) { return row_of(dtype)->size; }
const char *ec_dtype_name(ec_dtype dtype) { return row_of(dtype)->name; }
const char *ec_dtype_torch_name(ec_dtype dtype) { return row_of(dtype)->torch_name; }

bool ec_dtype_valid(int64_t id) {
  return id >= 0 && id < EC_DTYPE_COUNT && rows[(size_t)id].size != 0 &&
         (EC_KEPT_DTYPES >> id & 1u);
}

const char *ec_dtype_set_names(ec_dtype_set set, char *buffer, size_t size) {
  size_t at = 0;
  buffer[0] = '\0';
  for (unsigned id = 0; id < EC_DTYPE_COUNT && at < size; id++)
    if (set >> id & 1u) {
      int n = snprintf(buffer + at, size - at, "%s%s", at ? ", " : "", row_of((ec_dtype)id)->name);
      assert(n > 0); /* names are ASCII */
      at += (size_t)n;
    }
  return buffer;
}
