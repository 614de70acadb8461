/* Readers and writers of NumPy's files. Bytes are untrusted. */
#include "tools/npy.h"

#include <stdlib.h>
#include <string.h>

/* ---- dtypes ---------------------------------------------------------------------------------- */

static const struct {
  const char *descr;
  int32_t dtype;
} dtypes[] = {
    {"|b1", ECR_BOOL8},     {"|u1", ECR_UINT8},      {"|i1", ECR_INT8},     {"<i2", ECR_INT16},
    {"<i4", ECR_INT32},     {"<i8", ECR_INT64},      {"<u2", ECR_UINT16},   {"<u4", ECR_UINT32},
    {"<u8", ECR_UINT64},    {"<f2", ECR_FLOAT16},    {"<f4", ECR_FLOAT32},  {"<f8", ECR_FLOAT64},
    {"<c8", ECR_COMPLEX64}, {"<c16", ECR_COMPLEX128}, {"|V2", NPY_VOID2},   {"<V2", NPY_VOID2},
};

static const char *descr_of(int32_t dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (dtypes[i].dtype == dtype) return dtypes[i].descr;
  return "|V2"; /* bfloat16 */
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Returns the text after "'key':" and spaces, or NULL. */
static const char *find_key(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at) return NULL;
  at += strlen(key);
  while (*at == ' ' || *at == ':') at++;
  return at;
}

static bool read_descr(const char *header, int32_t *dtype) {
  const char *at = find_key(header, "'descr'");
  for (size_t i = 0; at && i < sizeof dtypes / sizeof *dtypes; i++) {
    const size_t size = strlen(dtypes[i].descr);
    if (at[0] == '\'' && strncmp(at + 1, dtypes[i].descr, size) == 0 && at[size + 1] == '\'') {
      *dtype = dtypes[i].dtype;
      return true;
    }
  }
  return false;
}

static bool read_shape(const char *header, npy_array *out) {
  const char *at = find_key(header, "'shape'");
  if (!at || *at++ != '(') return false;
  out->rank = 0;
  while (*at != ')') {
    char *end;
    while (*at == ' ' || *at == ',') at++;
    if (*at == ')') break;
    const long long size = strtoll(at, &end, 10);
    if (end == at || size < 0 || out->rank == NPY_MAX_RANK) return false;
    out->sizes[out->rank++] = size;
    at = end;
  }
  return true;
}

/* Computes strides and bytes. Returns false if they overflow. */
static bool set_layout(npy_array *out, bool is_fortran) {
  const size_t width = out->dtype == NPY_VOID2 ? 2 : ecr_dtype_size(out->dtype);
  int64_t step = (int64_t)width;
  bool is_empty = false;
  for (uint32_t i = 0; i < out->rank; i++) {
    const uint32_t d = is_fortran ? i : out->rank - 1 - i;
    out->strides[d] = step;
    is_empty |= out->sizes[d] == 0;
    if (out->sizes[d] && __builtin_mul_overflow(step, out->sizes[d], &step)) return false;
  }
  out->nbytes = is_empty ? 0 : (size_t)step;
  return true;
}

const char *npy_read(const uint8_t *data, size_t size, npy_array *out) {
  enum { MAX_HEADER = 4096 };
  char header[MAX_HEADER + 1];
  if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0) return "it is not a .npy file";
  const bool is_long = data[6] >= 2;
  const size_t begin = is_long ? 12 : 10;
  size_t length = (size_t)data[8] | (size_t)data[9] << 8;
  if (is_long) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
  if (length > size - begin) return "its header is cut off";
  if (length > MAX_HEADER) return "its header is longer than 4096 bytes";
  memcpy(header, data + begin, length);
  header[length] = '\0';
  const char *order = find_key(header, "'fortran_order'");
  if (!read_descr(header, &out->dtype)) return "its dtype is not supported";
  if (!order || !read_shape(header, out)) return "its header is not understood";
  if (!set_layout(out, strncmp(order, "True", 4) == 0)) return "its array is too large";
  if (out->nbytes > size - begin - length) return "its array is cut off";
  out->data = data + begin + length;
  return NULL;
}

/* ---- archives -------------------------------------------------------------------------------- */

static uint64_t read_number(const uint8_t *at, unsigned bytes) {
  uint64_t number = 0;
  for (unsigned i = 0; i < bytes; i++) number |= (uint64_t)at[i] << (8 * i);
  return number;
}

/* Reads the size of a large file from its extra field. */
static void read_zip64(const uint8_t *extra, size_t size, uint64_t *stored) {
  while (size >= 4) {
    const size_t id = (size_t)read_number(extra, 2), length = (size_t)read_number(extra + 2, 2);
    if (length > size - 4) return;
    if (id == 1 && length >= 16 && *stored == UINT32_MAX) *stored = read_number(extra + 12, 8);
    extra += 4 + length;
    size -= 4 + length;
  }
}

const char *npz_next(const uint8_t *data, size_t size, size_t *at, npy_array *out) {
  enum { LOCAL = 0x04034b50, HEADER = 30, DESCRIPTOR = 8 };
  const uint8_t *entry = data + *at;
  out->data = NULL;
  if (*at > size || size - *at < HEADER || read_number(entry, 4) != LOCAL)
    return *at ? NULL : "it is not a .npz file";
  const size_t name = (size_t)read_number(entry + 26, 2);
  const size_t extra = (size_t)read_number(entry + 28, 2);
  uint64_t stored = read_number(entry + 18, 4);
  if (name + extra > size - *at - HEADER) return "it is cut off";
  read_zip64(entry + HEADER + name, extra, &stored);
  if (read_number(entry + 8, 2) != 0)
    return "its arrays are compressed: write it without (savez, not savez_compressed)";
  if (read_number(entry + 6, 2) & DESCRIPTOR) return "it was written as a stream";
  const size_t begin = *at + HEADER + name + extra;
  if (stored > size - begin) return "an array is cut off";
  const char *wrong = npy_read(data + begin, (size_t)stored, out);
  const size_t suffix = name > 4 && memcmp(entry + HEADER + name - 4, ".npy", 4) == 0 ? 4 : 0;
  snprintf(out->name, sizeof out->name, "%.*s", (int)(name - suffix),
           (const char *)entry + HEADER);
  *at = begin + (size_t)stored;
  return wrong;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes the elements of dimensions from d on, row-major. */
static bool write_elements(FILE *file, const ecr_tensor *t, uint32_t d, const uint8_t *at,
                           size_t width) {
  if (d == t->rank) return fwrite(at, width, 1, file) == 1;
  for (int64_t i = 0; i < t->sizes[d]; i++)
    if (!write_elements(file, t, d + 1, at + i * t->strides[d], width)) return false;
  return true;
}

bool npy_write(FILE *file, const ecr_tensor *t) {
  enum { ALIGN = 64, PREFIX = 10 };
  char text[512];
  int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                      descr_of(t->dtype));
  for (uint32_t d = 0; d < t->rank; d++)
    used += snprintf(text + used, sizeof text - (size_t)used, "%lld, ",
                     (long long)t->sizes[d]);
  used += snprintf(text + used, sizeof text - (size_t)used, "), }");
  while ((PREFIX + used + 1) % ALIGN) text[used++] = ' ';
  text[used++] = '\n';
  const uint8_t prefix[PREFIX] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)(used & 255),
                                  (uint8_t)(used >> 8)};
  if (fwrite(prefix, PREFIX, 1, file) != 1 || fwrite(text, (size_t)used, 1, file) != 1)
    return false;
  return write_elements(file, t, 0, t->data, ecr_dtype_size(t->dtype));
}
