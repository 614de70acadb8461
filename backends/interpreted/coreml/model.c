/* Types and constants of a MIL program, and the files of its directory. */
#include "model.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "../json.h"

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

static bool is_known(uint32_t mil) { return mil < ECM_DTYPES && dtypes[mil].text; }

const char *ecm_dtype_name(uint32_t mil) { return is_known(mil) ? dtypes[mil].text : "unknown"; }

static void set_dtype(ect_operand *o, uint32_t mil) {
  o->dtype = mil;
  o->dtype_name = ecm_dtype_name(mil);
  o->scalar_type = is_known(mil) ? dtypes[mil].scalar_type : -1;
  o->kind = mil == ECM_STRING ? ECT_STRING : ECT_TENSOR;
}

static void read_dimension(ecm_model *m, ect_text dimension, ect_operand *out) {
  ecm_field constant, size = {0};
  if (out->rank == ECT_MAX_RANK) {
    ect_set_fault(m->g, out, EC_BACKEND_NOT_SUPPORTED, "a type has more than %d dimensions",
                  ECT_MAX_RANK);
    return;
  }
  int64_t *extent = &out->sizes[out->rank++];
  if (ecm_wire_find(dimension, 1, &constant)) {
    ecm_wire_find(constant.bytes, 1, &size);
    if (size.value > INT32_MAX)
      ect_set_fault(m->g, out, EC_BACKEND_INVALID_PROGRAM, "a dimension has %" PRIu64 " elements",
                    size.value);
    else *extent = (int64_t)size.value;
    return;
  }
  if (m->bound < 0)
    ect_set_fault(m->g, out, EC_BACKEND_NOT_SUPPORTED,
                  "a dimension is unknown, and no input states an upper bound");
  *extent = m->bound < 0 ? 0 : m->bound;
  out->unknown++;
}

ect_operand ecm_read_type(ecm_model *m, ect_text value_type) {
  ecm_field tensor, field, state, rank = {0};
  ect_operand o = ect_operand_new(ECT_TENSOR);
  o.is_dynamic = true;
  if (ecm_wire_find(value_type, STATE, &state) && ecm_wire_find(state.bytes, 1, &field)) {
    o.is_state = true;
    value_type = field.bytes;
  }
  if (!ecm_wire_find(value_type, 1, &tensor) || tensor.wire != ECM_BYTES) {
    ect_set_fault(m->g, &o, EC_BACKEND_NOT_SUPPORTED,
                  "a value is not a tensor; lists, tuples and dictionaries are not supported");
    return o;
  }
  ect_text rest = tensor.bytes;
  while (ecm_wire_next(&rest, &field)) {
    if (field.number == 1) set_dtype(&o, (uint32_t)(field.value & INT32_MAX));
    if (field.number == 2) rank = field;
    if (field.number == 3) read_dimension(m, field.bytes, &o);
  }
  if (!o.fault && rank.value != o.rank)
    ect_set_fault(m->g, &o, EC_BACKEND_INVALID_PROGRAM,
                  "a type has rank %" PRIu64 " and %u dimensions", rank.value, (unsigned)o.rank);
  return o;
}

/* ---- constants ------------------------------------------------------------------------------- */

#define INVALID(...) ect_set_fault(m->g, o, EC_BACKEND_INVALID_PROGRAM, __VA_ARGS__)

/* Decodes packed varints to elements of `width` bytes. */
static void decode_varints(ecm_model *m, ect_text packed, size_t width, ect_operand *o) {
  uint64_t number;
  uint8_t *items =
      packed.size > SIZE_MAX / 16 ? NULL : ect_own(&m->g->program, packed.size * width);
  if (!items) return;
  o->data = items;
  for (o->data_size = 0; ecm_wire_varint(&packed, &number); o->data_size += width)
    memcpy(items + o->data_size, &number, width);
}

/* A record of weight.bin: magic, dtype, size, offset. */
static void read_blob(ecm_model *m, ect_text blob, ect_operand *o) {
  enum { RECORD = 64 };
  ecm_field offset = {0}, name = {0};
  const ect_text file = m->files.weights;
  uint32_t magic = 0;
  uint64_t size = 0, at = 0;
  ecm_wire_find(blob, 1, &name);
  ecm_wire_find(blob, 2, &offset);
  if (!ect_text_is(name.bytes, "@model_path/weights/weight.bin")) {
    INVALID("a weight is in the file '%.*s', expected @model_path/weights/weight.bin",
            ECT_CLIP(name.bytes, 80));
    return;
  }
  if (!ec_in_range(offset.value, RECORD, file.size)) {
    INVALID("a weight's record at %" PRIu64 " is outside of weight.bin of %zu bytes", offset.value,
            file.size);
    return;
  }
  const uint8_t *record = file.data + offset.value;
  memcpy(&magic, record, sizeof magic);
  memcpy(&size, record + 8, sizeof size);
  memcpy(&at, record + 16, sizeof at);
  if (magic != 0xDEADBEEF || !ec_in_range(at, size, file.size)) {
    INVALID("the weight's record at %" PRIu64 " has magic 0x%08x and %" PRIu64 " bytes at %" PRIu64
            "; expected 0xdeadbeef, and bytes in %zu",
            offset.value, (unsigned)magic, size, at, file.size);
    return;
  }
  o->data = file.data + at;
  o->data_size = (size_t)size;
}

/* Decodes integers of fewer than 8 bits to int8 or uint8. */
static void unpack(ecm_model *m, ect_operand *o) {
  const unsigned bits = dtypes[o->dtype].bits;
  size_t count = 1;
  for (uint32_t d = 0; d < o->rank; d++)
    if (__builtin_mul_overflow(count, (size_t)o->sizes[d], &count)) count = SIZE_MAX;
  if (o->unknown || count > SIZE_MAX / 8 || (count * bits + 7) / 8 > o->data_size) {
    INVALID("a constant of %u-bit integers has %zu bytes, too few for its shape", bits,
            o->data_size);
    return;
  }
  uint8_t *items = ect_own(&m->g->program, count);
  if (!items) return;
  set_dtype(o, o->dtype == ECM_INT4 ? ECM_INT8 : ECM_UINT8);
  o->stored_bits = bits;
  ect_unpack(o, items, count);
  o->stored_bits = 0;
  o->data = items;
  o->data_size = count;
}

static void read_immediate(ecm_model *m, ect_text immediate, ect_operand *o) {
  ecm_field tensor, list, items = {0};
  if (!ecm_wire_find(immediate, 1, &tensor)) {
    ect_set_fault(m->g, o, EC_BACKEND_NOT_SUPPORTED, "a constant is not a tensor");
    return;
  }
  ect_text rest = tensor.bytes;
  if (!ecm_wire_next(&rest, &list) || !ecm_wire_find(list.bytes, 1, &items)) return;
  if (items.wire != ECM_BYTES)
    ect_set_fault(m->g, o, EC_BACKEND_NOT_SUPPORTED, "a constant's items are not packed");
  else if (list.number == 2) decode_varints(m, items.bytes, 4, o);
  else if (list.number == 3) decode_varints(m, items.bytes, 1, o);
  else {
    o->data = items.bytes.data;
    o->data_size = items.bytes.size;
  }
}

ect_operand ecm_read_constant(ecm_model *m, ect_text message) {
  ecm_field type = {0}, content;
  ect_operand result = ect_operand_new(ECT_TENSOR), *o = &result;
  size_t wanted;
  if (!ecm_wire_find(message, 2, &type)) INVALID("a constant has no type");
  else result = ecm_read_type(m, type.bytes);
  o->source = ecm_dtype_name(o->dtype); /* as stored */
  o->is_constant = o->is_defined = true;
  o->data = (const uint8_t *)"";
  if (ecm_wire_find(message, 3, &content)) read_immediate(m, content.bytes, o);
  else if (ecm_wire_find(message, 5, &content)) read_blob(m, content.bytes, o);
  if (o->fault || o->dtype == ECM_STRING) return result;
  if (is_known(o->dtype) && dtypes[o->dtype].bits) {
    unpack(m, o);
    return result;
  }
  const ect_tensor t = ect_type_of(o);
  if (t.dtype < 0)
    ect_set_fault(m->g, o, EC_BACKEND_NOT_SUPPORTED, "constants of MIL dtype %u",
                  (unsigned)o->dtype);
  else if (o->unknown || !ect_tensor_bytes(&t, &wanted) || wanted != o->data_size)
    INVALID("a constant has %zu bytes, which is not the size of its type", o->data_size);
  return result;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads {"mapping": {"3": [[..., {"Output": name}], ...]}}. */
static uint32_t read_handles(ecm_model *m, ect_json *j) {
  const uint32_t mapping = ect_json_member(j, 0, "mapping");
  uint32_t key = mapping ? ect_json_first(j, mapping) : 0;
  for (; key; key = ect_json_next(j, mapping, j->tokens[key].next)) {
    const uint32_t paths = j->tokens[key].next;
    uint64_t handle;
    if (j->tokens[mapping].type != ECT_JSON_OBJECT) return EC_BACKEND_OK;
    if (!ect_json_number(j, key, &handle) || handle >= UINT32_MAX) continue;
    for (uint32_t t = paths; t < j->tokens[paths].next; t++) {
      const uint32_t output = ect_json_member(j, t, "Output");
      const ect_token *text = &j->tokens[output];
      if (output && !ect_names_set(&m->handles, (ect_text){j->bytes.data + text->begin,
                                                           text->end - text->begin},
                                   (uint32_t)handle))
        return ect_refuse(m->g, EC_BACKEND_ALLOCATION_FAILED, "no memory for debug handles");
    }
  }
  return EC_BACKEND_OK;
}

static void raise_bound(ecm_model *m, uint64_t size) {
  if (size <= INT32_MAX && (int64_t)size > m->bound) m->bound = (int64_t)size;
}

/* Raises the bound to the largest size of an input's enumerated shapes. */
static void read_shapes(ecm_model *m, ect_text enumerated) {
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
static void read_ranges(ecm_model *m, ect_text ranges) {
  ecm_field range, upper;
  while (ecm_wire_next(&ranges, &range))
    if (range.wire == ECM_BYTES && ecm_wire_find(range.bytes, 2, &upper))
      raise_bound(m, upper.value);
}

static void read_bound(ecm_model *m, ect_text input) {
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

/* Reads the inputs of a ModelDescription, and those of its functions. */
static void read_bounds(ecm_model *m, ect_text description) {
  enum { INPUT = 1, FUNCTIONS = 20, INPUT_OF_FUNCTION = 2 };
  ecm_field field, inner;
  while (ecm_wire_next(&description, &field)) {
    if (field.wire != ECM_BYTES) continue;
    if (field.number == INPUT) read_bound(m, field.bytes);
    if (field.number == FUNCTIONS)
      while (ecm_wire_next(&field.bytes, &inner))
        if (inner.number == INPUT_OF_FUNCTION && inner.wire == ECM_BYTES)
          read_bound(m, inner.bytes);
  }
}

static bool copy_member(const ect_json *j, const char *member, char out[ECM_NAME_BYTES]) {
  const ect_token *t = &j->tokens[ect_json_member(j, 0, member)];
  const size_t size = t->end - t->begin;
  if (t == j->tokens || t->type != ECT_JSON_TEXT || size >= ECM_NAME_BYTES) return false;
  memcpy(out, j->bytes.data + t->begin, size);
  out[size] = '\0';
  return true;
}

/* Reads CMJR{"key": ..., "functionName": ...}, of methods that share one model. */
static uint32_t follow_reference(ecm_model *m, ect_text *payload) {
  const ec_backend_call *c = &m->g->c;
  const ect_text text = {payload->data + 4, payload->size - 4};
  char key[ECM_NAME_BYTES];
  const void *data = NULL;
  ect_json j;
  uint32_t status = ect_json_open(c, text, false, "payload: the reference to a shared model", &j);
  if (status == EC_BACKEND_OK &&
      (!copy_member(&j, "key", key) || !copy_member(&j, "functionName", m->function)))
    status = EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                             "payload: the reference to a shared model has no key or functionName");
  ect_json_free(&j);
  if (status != EC_BACKEND_OK) return status;
  if (c->host->named_data(c->call, key, &data, &payload->size) != EC_BACKEND_OK)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_FOUND, "payload: no named data '%s', the shared model",
                           key);
  payload->data = data;
  return EC_BACKEND_OK;
}

static uint32_t open_files(ecm_model *m, ect_text payload) {
  ect_json handles;
  ecm_field description;
  uint32_t status = EC_BACKEND_OK;
  memcpy(m->function, "main", sizeof "main");
  if (payload.size > 4 && memcmp(payload.data, "CMJR", 4) == 0)
    EC_BACKEND_TRY(follow_reference(m, &payload));
  EC_BACKEND_TRY(ecm_directory_open(&m->g->c, payload, &m->files));
  if (m->files.handles.data) {
    status = ect_json_open(&m->g->c, m->files.handles, false, "payload: the map of debug handles",
                           &handles);
    if (status == EC_BACKEND_OK) status = read_handles(m, &handles);
    ect_json_free(&handles);
  }
  if (status == EC_BACKEND_OK && ecm_wire_find(m->files.model, 2, &description))
    read_bounds(m, description.bytes);
  return status;
}

uint32_t ecm_model_open(ecm_model *m, ect_text payload) {
  m->names.host = m->handles.host = m->g->c.host;
  m->bound = -1;
  return open_files(m, payload);
}

void ecm_model_close(ecm_model *m) {
  ect_names_free(&m->names);
  ect_names_free(&m->handles);
}
