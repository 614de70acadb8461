/* Types, constants and names of a MIL program. */
#include "model.h"

#include <inttypes.h>
#include <string.h>

#include "../grow.h"
#include "core/checked.h"
#include "json.h"

enum { STATE = 5 }; /* of ValueType */

/* ---- types ----------------------------------------------------------------------------------- */

static const struct {
  const char *text; /* NULL: unknown */
  int32_t scalar_type;
  uint8_t bits;
} dtypes[ECM_DTYPES] = {
#define ECM_DTYPE(number, name, text, scalar_type, bits) [number] = {text, scalar_type, bits},
#include "dtypes.def"
#undef ECM_DTYPE
};

static bool is_known(int32_t mil) { return mil >= 0 && mil < ECM_DTYPES && dtypes[mil].text; }

const char *ecm_dtype_name(int32_t mil) { return is_known(mil) ? dtypes[mil].text : "unknown"; }

static uint32_t read_dimension(ecm_model *m, ecm_bytes dimension, ecm_value *out) {
  ecm_field constant, size;
  ect_tensor *t = &out->type;
  if (t->rank == ECT_MAX_RANK)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED, "a type has more than %d dimensions",
                           ECT_MAX_RANK);
  int64_t *extent = &t->sizes[t->rank++];
  if (ecm_wire_find(dimension, 1, &constant)) {
    size.value = 0;
    ecm_wire_find(constant.bytes, 1, &size);
    if (size.value > INT32_MAX)
      return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                             "a dimension has %" PRIu64 " elements", size.value);
    *extent = (int64_t)size.value;
    return EC_BACKEND_OK;
  }
  if (m->bound < 0)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED,
                           "a dimension is unknown, and no input states an upper bound");
  *extent = m->bound;
  out->unknown++;
  return EC_BACKEND_OK;
}

uint32_t ecm_read_type(ecm_model *m, ecm_bytes value_type, ecm_value *out) {
  ecm_field tensor, field, state;
  *out = (ecm_value){.id = ECT_NO_VALUE, .type.is_dynamic = true};
  if (ecm_wire_find(value_type, STATE, &state) && ecm_wire_find(state.bytes, 1, &field)) {
    out->is_state = true;
    value_type = field.bytes;
  }
  if (!ecm_wire_find(value_type, 1, &tensor) || tensor.wire != ECM_BYTES)
    return EC_BACKEND_FAIL(
        &m->c, EC_BACKEND_NOT_SUPPORTED,
        "a value is not a tensor; lists, tuples and dictionaries are not supported");
  ecm_bytes rest = tensor.bytes;
  while (ecm_wire_next(&rest, &field)) {
    if (field.number == 1) out->mil = (int32_t)(field.value & INT32_MAX);
    if (field.number == 3) EC_BACKEND_TRY(read_dimension(m, field.bytes, out));
  }
  out->type.dtype = is_known(out->mil) ? dtypes[out->mil].scalar_type : -1;
  return EC_BACKEND_OK;
}

/* ---- constants ------------------------------------------------------------------------------- */

void *ecm_own(ecm_model *m, size_t size) { return ect_own(&m->program, size); }

size_t ecm_elements(const ecm_value *v) {
  const size_t width = ec_backend_dtype_size(v->type.dtype);
  return width ? v->data.size / width : 0;
}

/* Decodes packed varints to elements of `width` bytes. */
static uint32_t decode_varints(ecm_model *m, ecm_bytes packed, size_t width, ecm_bytes *out) {
  uint64_t number;
  if (packed.size > SIZE_MAX / 16) return EC_BACKEND_INVALID_PROGRAM;
  uint8_t *items = ecm_own(m, packed.size * width);
  if (!items)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a constant");
  *out = (ecm_bytes){items, 0};
  while (ecm_wire_varint(&packed, &number)) {
    memcpy(items + out->size, &number, width);
    out->size += width;
  }
  return EC_BACKEND_OK;
}

/* A record of weight.bin: magic, dtype, size, offset. */
static uint32_t read_blob(ecm_model *m, ecm_bytes blob, ecm_bytes *out) {
  enum { RECORD = 64 };
  ecm_field offset = {0};
  const ecm_bytes file = m->files.weights;
  uint32_t magic = 0;
  uint64_t size = 0, at = 0;
  ecm_wire_find(blob, 2, &offset);
  if (!ec_in_range(offset.value, RECORD, file.size))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                           "a weight's record at %" PRIu64 " is outside of weight.bin of %zu bytes",
                           offset.value, file.size);
  const uint8_t *record = file.data + offset.value;
  memcpy(&magic, record, sizeof magic);
  memcpy(&size, record + 8, sizeof size);
  memcpy(&at, record + 16, sizeof at);
  if (magic != 0xDEADBEEF || !ec_in_range(at, size, file.size))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                           "the weight's record at %" PRIu64 " has magic 0x%08x and %" PRIu64
                           " bytes at %" PRIu64 "; expected 0xdeadbeef, and bytes in %zu",
                           offset.value, (unsigned)magic, size, at, file.size);
  *out = (ecm_bytes){file.data + at, (size_t)size};
  return EC_BACKEND_OK;
}

unsigned ecm_bits_at(ecm_bytes bytes, size_t i, unsigned bits) {
  const size_t at = i * bits / 8;
  unsigned both = bytes.data[at];
  if (at + 1 < bytes.size) both |= (unsigned)bytes.data[at + 1] << 8;
  return both >> (i * bits % 8) & ((1u << bits) - 1);
}

/* Decodes a stream of n bits each, the lowest first, to int8 or uint8. */
static uint32_t unpack(ecm_model *m, ecm_value *v) {
  const unsigned bits = dtypes[v->mil].bits;
  const bool is_signed = v->mil == ECM_INT4;
  const ecm_bytes from = v->data;
  size_t count = 1;
  for (uint32_t d = 0; d < v->type.rank; d++)
    if (__builtin_mul_overflow(count, (size_t)v->type.sizes[d], &count)) count = SIZE_MAX;
  if (v->unknown || count > SIZE_MAX / 8 || (count * bits + 7) / 8 > from.size)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                           "a constant of %u-bit integers has %zu bytes, too few for its shape",
                           bits, from.size);
  uint8_t *items = ecm_own(m, count);
  if (!items)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a constant");
  for (size_t i = 0; i < count; i++) {
    const unsigned number = ecm_bits_at(from, i, bits);
    const unsigned high = is_signed && number >> (bits - 1) ? 0xffu << bits : 0;
    items[i] = (uint8_t)(number | high);
  }
  v->data = (ecm_bytes){items, count};
  v->mil = is_signed ? ECM_INT8 : ECM_UINT8;
  v->type.dtype = dtypes[v->mil].scalar_type;
  return EC_BACKEND_OK;
}

static uint32_t read_immediate(ecm_model *m, ecm_bytes immediate, ecm_value *out) {
  ecm_field tensor, list, items = {0};
  if (!ecm_wire_find(immediate, 1, &tensor))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED, "a constant is not a tensor");
  ecm_bytes rest = tensor.bytes;
  if (!ecm_wire_next(&rest, &list) || !ecm_wire_find(list.bytes, 1, &items)) return EC_BACKEND_OK;
  if (items.wire != ECM_BYTES)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED, "a constant's items are not packed");
  if (list.number == 2) return decode_varints(m, items.bytes, 4, &out->data);
  if (list.number == 3) return decode_varints(m, items.bytes, 1, &out->data);
  out->data = items.bytes;
  return EC_BACKEND_OK;
}

uint32_t ecm_read_constant(ecm_model *m, ecm_bytes message, ecm_value *out) {
  ecm_field type, content;
  size_t wanted;
  if (!ecm_wire_find(message, 2, &type))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM, "a constant has no type");
  EC_BACKEND_TRY(ecm_read_type(m, type.bytes, out));
  out->is_constant = true;
  if (ecm_wire_find(message, 3, &content)) EC_BACKEND_TRY(read_immediate(m, content.bytes, out));
  else if (ecm_wire_find(message, 5, &content))
    EC_BACKEND_TRY(read_blob(m, content.bytes, &out->data));
  if (out->mil == ECM_STRING) return EC_BACKEND_OK;
  if (is_known(out->mil) && dtypes[out->mil].bits) return unpack(m, out);
  if (out->type.dtype < 0)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED, "constants of MIL dtype %d",
                           (int)out->mil);
  if (out->unknown || !ect_tensor_bytes(&out->type, &wanted) || wanted != out->data.size)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_INVALID_PROGRAM,
                           "a constant has %zu bytes, which is not the size of its type",
                           out->data.size);
  return EC_BACKEND_OK;
}

uint32_t ecm_add_state(ecm_model *m, ecm_value *v) {
  size_t bytes;
  if (v->type.dtype < 0 || v->unknown || !ect_tensor_bytes(&v->type, &bytes))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED,
                           "state of MIL dtype %d, or of unknown shape", (int)v->mil);
  return ect_add_owned(&m->program, &v->type, ECT_STATE, &v->id)
             ? (uint32_t)EC_BACKEND_OK
             : EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for state");
}

/* ---- names ----------------------------------------------------------------------------------- */

uint32_t ecm_define(ecm_model *m, ecm_bytes name, const ecm_value *value) {
  ecm_value *moved =
      ect_grow(m->c.host, m->values, &m->value_room, m->value_count, sizeof *moved);
  if (moved) m->values = moved;
  if (!moved || !ect_names_set(&m->names, name, (uint32_t)m->value_count))
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for values");
  m->values[m->value_count++] = *value;
  return EC_BACKEND_OK;
}

uint32_t ecm_tensor(ecm_model *m, ecm_value *v, int64_t *out) {
  if (v->id == ECT_NO_VALUE && v->type.dtype < 0)
    return EC_BACKEND_FAIL(&m->c, EC_BACKEND_NOT_SUPPORTED, "values of MIL dtype %d", (int)v->mil);
  if (v->id == ECT_NO_VALUE) {
    ect_tensor t = v->type;
    t.is_dynamic = !v->is_constant;
    if (v->is_constant) {
      t.role = ECT_CONSTANT;
      t.constant = ect_add_constant(&m->program, v->data.data, v->data.size);
    }
    v->id = ect_add_tensor(&m->program, &t);
  }
  *out = v->id;
  return EC_BACKEND_OK;
}

/* Reads {"mapping": {"3": [[..., {"Output": name}], ...]}}. */
static uint32_t read_handles(ecm_model *m, ecm_json *j) {
  const uint32_t mapping = ecm_json_member(j, 0, "mapping");
  uint32_t key = mapping ? ecm_json_first(j, mapping) : 0;
  for (; key; key = ecm_json_next(j, mapping, j->tokens[key].next)) {
    const uint32_t paths = j->tokens[key].next;
    uint64_t handle;
    if (j->tokens[mapping].type != ECM_OBJECT) return EC_BACKEND_OK;
    if (!ecm_json_number(j, key, &handle) || handle >= UINT32_MAX) continue;
    for (uint32_t t = paths; t < j->tokens[paths].next; t++) {
      const uint32_t output = ecm_json_member(j, t, "Output");
      const ecm_token *text = &j->tokens[output];
      if (output && !ect_names_set(&m->handles, (ecm_bytes){j->bytes.data + text->begin,
                                                           text->end - text->begin},
                                   (uint32_t)handle))
        return EC_BACKEND_FAIL(&m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for debug handles");
    }
  }
  return EC_BACKEND_OK;
}

static void raise_bound(ecm_model *m, uint64_t size) {
  if (size <= INT32_MAX && (int64_t)size > m->bound) m->bound = (int64_t)size;
}

/* Raises the bound to the largest size of an input's enumerated shapes. */
static void read_shapes(ecm_model *m, ecm_bytes enumerated) {
  ecm_field shape, sizes;
  uint64_t size;
  while (ecm_wire_next(&enumerated, &shape)) {
    if (shape.wire != ECM_BYTES) continue;
    while (ecm_wire_next(&shape.bytes, &sizes))
      if (sizes.wire == ECM_VARINT) raise_bound(m, sizes.value);
      else if (sizes.wire == ECM_BYTES)
        while (ecm_wire_varint(&sizes.bytes, &size)) raise_bound(m, size);
  }
}

/* Raises the bound to the largest of an input's ranges. */
static void read_ranges(ecm_model *m, ecm_bytes ranges) {
  ecm_field range, upper;
  while (ecm_wire_next(&ranges, &range))
    if (range.wire == ECM_BYTES && ecm_wire_find(range.bytes, 2, &upper))
      raise_bound(m, upper.value);
}

static void read_bound(ecm_model *m, ecm_bytes input) {
  enum { TYPE = 3, MULTI_ARRAY = 5, ENUMERATED = 21, RANGES = 31 };
  ecm_field type, array, shapes;
  if (!ecm_wire_find(input, TYPE, &type) || type.wire != ECM_BYTES ||
      !ecm_wire_find(type.bytes, MULTI_ARRAY, &array) || array.wire != ECM_BYTES)
    return;
  if (ecm_wire_find(array.bytes, RANGES, &shapes) && shapes.wire == ECM_BYTES)
    read_ranges(m, shapes.bytes);
  if (ecm_wire_find(array.bytes, ENUMERATED, &shapes) && shapes.wire == ECM_BYTES)
    read_shapes(m, shapes.bytes);
}

static bool copy_member(const ecm_json *j, const char *member, char out[ECM_NAME_BYTES]) {
  const ecm_token *t = &j->tokens[ecm_json_member(j, 0, member)];
  const size_t size = t->end - t->begin;
  if (t == j->tokens || t->type != ECM_TEXT || size >= ECM_NAME_BYTES) return false;
  memcpy(out, j->bytes.data + t->begin, size);
  out[size] = '\0';
  return true;
}

/* Reads CMJR{"key": ..., "functionName": ...}, of methods that share one model. */
static uint32_t follow_reference(ecm_model *m, ecm_bytes *payload) {
  const ec_backend_call *c = &m->c;
  const ecm_bytes text = {payload->data + 4, payload->size - 4};
  char key[ECM_NAME_BYTES];
  const void *data = NULL;
  ecm_json j;
  uint32_t status = ecm_json_open(c, text, false, "the reference to a shared model", &j);
  if (status == EC_BACKEND_OK &&
      (!copy_member(&j, "key", key) || !copy_member(&j, "functionName", m->function)))
    status = EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                             "payload: the reference to a shared model has no key or functionName");
  ecm_json_free(&j);
  if (status != EC_BACKEND_OK) return status;
  if (c->host->named_data(c->call, key, &data, &payload->size) != EC_BACKEND_OK)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_FOUND, "payload: no named data '%s', the shared model",
                           key);
  payload->data = data;
  return EC_BACKEND_OK;
}

static uint32_t open_files(ecm_model *m, ecm_bytes payload) {
  ecm_json handles;
  ecm_field description, field;
  uint32_t status = EC_BACKEND_OK;
  memcpy(m->function, "main", sizeof "main");
  if (payload.size > 4 && memcmp(payload.data, "CMJR", 4) == 0)
    EC_BACKEND_TRY(follow_reference(m, &payload));
  EC_BACKEND_TRY(ecm_directory_open(&m->c, payload, &m->files));
  if (m->files.handles.data) {
    status = ecm_json_open(&m->c, m->files.handles, false, "the map of debug handles", &handles);
    if (status == EC_BACKEND_OK) status = read_handles(m, &handles);
    ecm_json_free(&handles);
  }
  if (status == EC_BACKEND_OK && ecm_wire_find(m->files.model, 2, &description))
    for (ecm_bytes rest = description.bytes; ecm_wire_next(&rest, &field);)
      if (field.number == 1 && field.wire == ECM_BYTES) read_bound(m, field.bytes);
  return status;
}

uint32_t ecm_model_open(void *graph, const ec_backend_call *c, const ec_backend_init *what) {
  ecm_model *m = graph;
  m->c = *c;
  m->names.host = m->handles.host = c->host;
  m->bound = -1;
  return open_files(m, (ecm_bytes){what->payload, what->payload_size});
}

void ecm_model_close(void *graph) {
  ecm_model *m = graph;
  ect_names_free(&m->names);
  ect_names_free(&m->handles);
  m->program.host->free(m->values);
}
