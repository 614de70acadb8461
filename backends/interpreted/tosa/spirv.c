/* SPIR-V words: definitions are found by id, and decoded where the graph uses them. */
#include "spirv.h"

#include <string.h>

#include "payload.h"

/* Opcodes. */
enum {
  EXT_INST = 12, TYPE_BOOL = 20, TYPE_INT = 21, TYPE_FLOAT = 22, TYPE_ARRAY = 28, TRUE_CONST = 41,
  FALSE_CONST = 42, CONSTANT = 43, COMPOSITE = 44, NULL_CONST = 46, REPLICATED = 4461,
  TYPE_TENSOR = 4163, GRAPH_CONSTANT = 4181, GRAPH = 4183, GRAPH_INPUT = 4184, SET_OUTPUT = 4185
};

enum { MAGIC = 0x07230203, HEADER = 5, MAX_ELEMENTS = 1 << 20, NONE = -1 };

typedef struct reader {
  ect_graph *g;
  const uint8_t *words;
  size_t count;
  uint32_t bound;    /* of ids */
  uint32_t *defined; /* by id: the instruction's first word; 0: none */
  int64_t *values;   /* by id: the number in the graph; NONE */
  uint32_t *inputs, *outputs;
  size_t input_count, output_count;
  ets_constant_fn *constant;
  void *user;
} reader;

/* An instruction: word 0 has its length and opcode. */
typedef struct instruction {
  size_t at;
  uint32_t opcode, length;
} instruction;

static uint32_t word(const reader *r, size_t at) {
  uint32_t bits;
  memcpy(&bits, r->words + 4 * at, sizeof bits);
  return bits;
}

static uint32_t refuse(const reader *r, const char *why, uint32_t id) {
  return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED, "SPIR-V: %s (id %u)", why,
                         (unsigned)id);
}

/* Finds the instruction that defines an id; opcode 0: none. */
static instruction find(const reader *r, uint32_t id) {
  if (id >= r->bound || !r->defined[id]) return (instruction){0, 0, 0};
  const size_t at = r->defined[id];
  return (instruction){at, word(r, at) & 0xffff, word(r, at) >> 16};
}

/* Returns word `i` of an instruction; 0 beyond its end. */
static uint32_t operand(const reader *r, instruction n, uint32_t i) {
  return i < n.length ? word(r, n.at + i) : 0;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The dtype of a scalar type; 0: none. */
static uint32_t scalar_dtype(const reader *r, uint32_t id) {
  const instruction type = find(r, id);
  const uint32_t width = operand(r, type, 2), encoding = operand(r, type, 3);
  if (type.opcode == TYPE_BOOL) return ETS_BOOL;
  if (type.opcode == TYPE_FLOAT && width == 16)
    return type.length > 3 && !encoding ? ETS_BF16 : ETS_FP16;
  if (type.opcode == TYPE_FLOAT) return width == 32 ? ETS_FP32 : 0;
  if (type.opcode != TYPE_INT) return 0;
  switch (width) {
  case 4: return ETS_INT4;
  case 8: return ETS_INT8;
  case 16: return ETS_INT16;
  case 32: return ETS_INT32;
  default: return width == 64 ? ETS_INT64 : 0;
  }
}

/* Bytes of an element of a dtype in this file's constants. */
static uint8_t width_of(uint32_t dtype) {
  return (uint8_t)ec_backend_dtype_size(ets_scalar_type(dtype));
}

static uint32_t constant_number(const reader *r, uint32_t id) {
  const instruction n = find(r, id);
  return n.opcode == CONSTANT ? operand(r, n, 3) : n.opcode == TRUE_CONST;
}

static bool is_number(const reader *r, uint32_t id) {
  const instruction n = find(r, id);
  return n.opcode == CONSTANT || n.opcode == NULL_CONST;
}

/* Sets the dtype and sizes of a tensor type. */
static uint32_t read_tensor_type(const reader *r, uint32_t id, ect_operand *out) {
  const instruction type = find(r, id), shape = find(r, operand(r, type, 4));
  ets_set_dtype(out, scalar_dtype(r, operand(r, type, 2)));
  out->rank = constant_number(r, operand(r, type, 3));
  if (type.opcode != TYPE_TENSOR || !out->dtype || out->rank > ECT_MAX_RANK ||
      !is_number(r, operand(r, type, 3)))
    return refuse(r, "a value's type is not a tensor of a known dtype and rank", id);
  if (out->rank && shape.opcode != COMPOSITE && shape.opcode != REPLICATED)
    return refuse(r, "a tensor's shape is not constant", id);
  for (uint32_t d = 0; d < out->rank; d++) {
    const uint32_t item = operand(r, shape, shape.opcode == REPLICATED ? 3 : 3 + d);
    if (!is_number(r, item)) return refuse(r, "a tensor's size is not a number", item);
    out->sizes[d] = constant_number(r, item);
    if (out->sizes[d] > INT32_MAX) return refuse(r, "a tensor is too large", id);
  }
  return EC_BACKEND_OK;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Finds the elements' dtype and count of a constant: a scalar, an array or a tensor. */
static uint32_t measure(const reader *r, uint32_t type_id, uint32_t *dtype, size_t *count) {
  const instruction type = find(r, type_id);
  ect_operand tensor = ect_operand_new(ECT_TENSOR);
  *count = 1;
  *dtype = scalar_dtype(r, type_id);
  if (*dtype) return EC_BACKEND_OK;
  if (type.opcode == TYPE_ARRAY) {
    *dtype = scalar_dtype(r, operand(r, type, 2));
    *count = constant_number(r, operand(r, type, 3));
  } else {
    EC_BACKEND_TRY(read_tensor_type(r, type_id, &tensor));
    *dtype = tensor.dtype;
    for (uint32_t d = 0; d < tensor.rank; d++)
      if (__builtin_mul_overflow(*count, (size_t)tensor.sizes[d], count)) *count = SIZE_MAX;
  }
  if (!*dtype || *count > MAX_ELEMENTS) return refuse(r, "a constant is too large", type_id);
  return EC_BACKEND_OK;
}

/* Elements of a constant that are being decoded. */
typedef struct elements {
  uint8_t *to;
  size_t left, budget; /* budget: of constants to visit, because constants may share parts */
  uint8_t width;
} elements;

static bool put_number(const reader *r, uint32_t id, elements *e) {
  const int64_t number = (int32_t)constant_number(r, id);
  if (!e->left) return false;
  memcpy(e->to, &number, e->width);
  e->to += e->width;
  e->left--;
  return true;
}

/* Returns the number of parts of a composite. A replicated part is a number, whatever the rank, or
 * of a rank less. */
static size_t part_count(const reader *r, instruction n) {
  const instruction part = find(r, operand(r, n, 3));
  uint32_t dtype;
  size_t whole, each;
  if (n.opcode == COMPOSITE) return n.length - 3;
  if (measure(r, operand(r, n, 1), &dtype, &whole) != EC_BACKEND_OK ||
      measure(r, operand(r, part, 1), &dtype, &each) != EC_BACKEND_OK || !each)
    return 0;
  return whole / each;
}

/* Decodes a constant. Returns false if it has another number of elements than its type. */
static bool put_elements(const reader *r, uint32_t id, unsigned depth, elements *e) {
  const instruction n = find(r, id);
  uint32_t dtype;
  size_t zeros;
  if (depth > ECT_MAX_RANK || n.length < 3 || !e->budget--) return false;
  if (n.opcode == NULL_CONST) {
    if (measure(r, operand(r, n, 1), &dtype, &zeros) != EC_BACKEND_OK || zeros > e->left)
      return false;
    e->to += zeros * e->width;
    e->left -= zeros;
    return true;
  }
  if (n.opcode != COMPOSITE && n.opcode != REPLICATED) return put_number(r, id, e);
  const size_t count = part_count(r, n);
  const uint32_t step = n.opcode == COMPOSITE;
  for (size_t i = 0; i < count; i++)
    if (!put_elements(r, operand(r, n, 3 + step * (uint32_t)i), depth + 1, e))
      return false;
  return true;
}

/* Decodes a constant of the module into bytes that the program owns. */
static uint32_t read_constant(const reader *r, uint32_t id, uint32_t *dtype, size_t *count,
                              uint8_t **out) {
  *out = NULL;
  EC_BACKEND_TRY(measure(r, operand(r, find(r, id), 1), dtype, count));
  elements e = {.left = *count, .budget = 2 * *count + 64, .width = width_of(*dtype)};
  e.to = *out = ect_own(&r->g->program, *count * e.width);
  if (!e.to)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a constant");
  if (!put_elements(r, id, 0, &e) || e.left)
    return refuse(r, "a constant has other elements than its type", id);
  return EC_BACKEND_OK;
}

static bool is_constant(instruction n) {
  return (n.opcode >= TRUE_CONST && n.opcode <= COMPOSITE) || n.opcode == NULL_CONST ||
         n.opcode == REPLICATED;
}

/* ---- values ---------------------------------------------------------------------------------- */

static uint32_t add_value(reader *r, uint32_t id, ect_operand *v) {
  uint32_t number;
  EC_BACKEND_TRY(ect_add_operand(r->g, v, &number));
  r->values[id] = number;
  return EC_BACKEND_OK;
}

static uint32_t add_constant(reader *r, uint32_t id, instruction n) {
  ect_operand v = ect_operand_new(ECT_TENSOR);
  uint32_t dtype;
  size_t count;
  uint8_t *bytes;
  EC_BACKEND_TRY(read_tensor_type(r, operand(r, n, 1), &v));
  v.is_defined = true;
  if (n.opcode == GRAPH_CONSTANT) {
    EC_BACKEND_TRY(r->constant(r->user, operand(r, n, 3), &v.data, &v.data_size));
    return add_value(r, id, &v);
  }
  EC_BACKEND_TRY(read_constant(r, id, &dtype, &count, &bytes));
  if (dtype == ETS_INT4) ets_set_dtype(&v, ETS_INT8); /* one byte each, here */
  v.data = bytes;
  v.data_size = count * width_of(dtype);
  return add_value(r, id, &v);
}

/* Finds an input of an operator. */
static uint32_t add_input(reader *r, uint32_t id) {
  const instruction n = find(r, id);
  if (!n.opcode) return refuse(r, "an input is not defined", id);
  if (r->values[id] == NONE && (is_constant(n) || n.opcode == GRAPH_CONSTANT))
    EC_BACKEND_TRY(add_constant(r, id, n));
  if (r->values[id] == NONE) return refuse(r, "an input is not a tensor of the graph", id);
  return ect_add_link(r->g, (ect_text){0}, (uint32_t)r->values[id]);
}

/* Adds the numbers of a constant as a shape. */
static uint32_t add_shape(reader *r, uint32_t id) {
  ect_operand v = ect_operand_new(ECT_TENSOR);
  uint32_t dtype, number;
  size_t count;
  uint8_t *bytes;
  if (!is_constant(find(r, id))) return refuse(r, "a shape is not constant", id);
  EC_BACKEND_TRY(read_constant(r, id, &dtype, &count, &bytes));
  if (count > ECT_MAX_RANK) return refuse(r, "a shape has more than 16 numbers", id);
  ets_set_dtype(&v, ETS_SHAPE);
  v.is_defined = true;
  v.rank = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    int32_t item = 0;
    memcpy(&item, bytes + i * width_of(dtype), width_of(dtype) < 4 ? width_of(dtype) : 4);
    v.sizes[i] = item;
  }
  v.data = bytes;
  v.data_size = count * width_of(dtype);
  v.width = width_of(dtype);
  EC_BACKEND_TRY(ect_add_operand(r->g, &v, &number));
  return ect_add_link(r->g, (ect_text){0}, number);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* True if input `i` of an operator is a shape. */
static bool is_shape(uint32_t op, uint32_t i) {
  switch (op) {
  case ETS_RESHAPE:
  case ETS_TILE:
  case ETS_PAD: return i == 1;
  case ETS_SLICE: return i == 1 || i == 2;
  case ETS_RESIZE: return i > 0;
  default: return false;
  }
}

static uint32_t add_attribute(reader *r, uint32_t id, const char *name) {
  uint32_t dtype, number;
  size_t count;
  uint8_t *bytes;
  if (!is_constant(find(r, id))) return refuse(r, "an attribute is not constant", id);
  EC_BACKEND_TRY(read_constant(r, id, &dtype, &count, &bytes));
  ect_operand o = ect_list_new(ECT_INT_LIST, bytes, count, width_of(dtype));
  EC_BACKEND_TRY(ect_add_operand(r->g, &o, &number));
  return ect_add_link(r->g, ect_text_of(name), number);
}

/* OpExtInst: type, result, set, number, attributes, inputs. */
static uint32_t read_operator(reader *r, instruction n) {
  enum { RESULT = 2, NUMBER = 4, FIRST = 5 };
  const uint32_t id = operand(r, n, RESULT);
  ect_node node = {.kind = operand(r, n, NUMBER) + 1, .number = (uint32_t)r->g->node_count,
                   .first = (uint32_t)r->g->link_count, .output_count = 1};
  ect_operand v = ect_operand_new(ECT_TENSOR);
  if (!node.kind || node.kind >= ETS_OPERATORS || id >= r->bound)
    return refuse(r, "an operator that TOSA does not have", id);
  const ec_fb_schema *schema = ets_attributes(node.kind);
  ets_name_node(&node);
  node.attribute_count = schema ? (uint32_t)schema->field_count : 0;
  for (uint32_t at = FIRST + node.attribute_count; at < n.length; at++, node.input_count++)
    EC_BACKEND_TRY(is_shape(node.kind, node.input_count) ? add_shape(r, operand(r, n, at))
                                                         : add_input(r, operand(r, n, at)));
  EC_BACKEND_TRY(read_tensor_type(r, operand(r, n, 1), &v));
  EC_BACKEND_TRY(add_value(r, id, &v));
  EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, (uint32_t)r->values[id]));
  for (uint32_t i = 0; i < node.attribute_count; i++)
    EC_BACKEND_TRY(add_attribute(r, operand(r, n, FIRST + i), schema->fields[i].name));
  return ect_add_node(r->g, 0, &node);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static uint32_t read_input(reader *r, instruction n) {
  const uint32_t id = operand(r, n, 2);
  ect_operand v = ect_operand_new(ECT_TENSOR);
  if (id >= r->bound || constant_number(r, operand(r, n, 3)) != r->input_count)
    return refuse(r, "inputs of the graph are not in order", id);
  EC_BACKEND_TRY(read_tensor_type(r, operand(r, n, 1), &v));
  EC_BACKEND_TRY(add_value(r, id, &v));
  r->inputs[r->input_count++] = (uint32_t)r->values[id];
  return EC_BACKEND_OK;
}

static uint32_t read_output(reader *r, instruction n) {
  const uint32_t id = operand(r, n, 1);
  if (id >= r->bound || r->values[id] == NONE ||
      constant_number(r, operand(r, n, 2)) != r->output_count)
    return refuse(r, "an output of the graph is not one of its values, or not in order", id);
  r->outputs[r->output_count++] = (uint32_t)r->values[id];
  return EC_BACKEND_OK;
}

/* The word of an instruction that is its result. */
static uint32_t result_word(uint32_t opcode) {
  switch (opcode) {
  case TYPE_BOOL:
  case TYPE_INT:
  case TYPE_FLOAT:
  case TYPE_ARRAY:
  case TYPE_TENSOR: return 1;
  case TRUE_CONST:
  case FALSE_CONST:
  case CONSTANT:
  case COMPOSITE:
  case NULL_CONST:
  case REPLICATED:
  case GRAPH_CONSTANT:
  case GRAPH_INPUT:
  case EXT_INST: return 2;
  default: return 0;
  }
}

static uint32_t define(reader *r, instruction n) {
  const uint32_t at = result_word(n.opcode), id = operand(r, n, at);
  if (!at) return EC_BACKEND_OK;
  if (at >= n.length || id >= r->bound || r->defined[id])
    return refuse(r, "an id is out of range, or defined twice", id);
  r->defined[id] = (uint32_t)n.at;
  return EC_BACKEND_OK;
}

static uint32_t read_instructions(reader *r) {
  bool in_graph = false;
  for (size_t at = HEADER; at < r->count;) {
    const instruction n = {at, word(r, at) & 0xffff, word(r, at) >> 16};
    if (!n.length || n.length > r->count - at)
      return refuse(r, "an instruction is longer than the module", (uint32_t)at);
    if (n.opcode == GRAPH && in_graph) return refuse(r, "more than one graph", operand(r, n, 2));
    in_graph = in_graph || n.opcode == GRAPH;
    EC_BACKEND_TRY(define(r, n));
    if (in_graph && n.opcode == GRAPH_INPUT) EC_BACKEND_TRY(read_input(r, n));
    if (in_graph && n.opcode == EXT_INST) EC_BACKEND_TRY(read_operator(r, n));
    if (in_graph && n.opcode == SET_OUTPUT) EC_BACKEND_TRY(read_output(r, n));
    at += n.length;
  }
  return EC_BACKEND_OK;
}

/* Sets the inputs and outputs of the graph. */
static uint32_t finish_block(reader *r) {
  ect_block *b = &r->g->blocks[0];
  b->first_input = (uint32_t)r->g->link_count;
  b->input_count = (uint32_t)r->input_count;
  b->first_output = b->first_input + b->input_count;
  b->output_count = (uint32_t)r->output_count;
  for (size_t i = 0; i < r->input_count; i++)
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, r->inputs[i]));
  for (size_t i = 0; i < r->output_count; i++)
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, r->outputs[i]));
  return EC_BACKEND_OK;
}

uint32_t ets_read_spirv(ect_graph *g, const uint8_t *words, size_t count,
                        ets_constant_fn *constant, void *user) {
  const ec_host *host = g->c.host;
  uint32_t block;
  reader r = {.g = g, .words = words, .count = count, .constant = constant, .user = user};
  if (count < HEADER || word(&r, 0) != MAGIC || word(&r, 3) > count || count > UINT32_MAX)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "%zu words are not a SPIR-V module",
                           count);
  r.bound = word(&r, 3);
  r.defined = host->alloc((r.bound + 1u) * sizeof *r.defined);
  r.values = host->alloc((r.bound + 1u) * sizeof *r.values);
  r.inputs = host->alloc(count * sizeof *r.inputs);
  r.outputs = host->alloc(count * sizeof *r.outputs);
  uint32_t status = EC_BACKEND_OK;
  if (!r.defined || !r.values || !r.inputs || !r.outputs)
    status =
        EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for the SPIR-V module");
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < r.bound; i++) r.values[i] = NONE;
  if (status == EC_BACKEND_OK) status = ect_add_block(g, &(ect_block){.name = {0}}, &block);
  if (status == EC_BACKEND_OK) status = read_instructions(&r);
  if (status == EC_BACKEND_OK) status = finish_block(&r);
  host->free(r.defined);
  host->free(r.values);
  host->free(r.inputs);
  host->free(r.outputs);
  return status;
}
