/* The hand-made files, and a reader of all their data. */
#include "testing/sample.h"

#include "format/ptd.h"
#include "format/pte.h"

/* Values 0 and 1 are tensors; every kind of value but Double is there, and every instruction. */
static const char PROGRAM[] =
    "{execution_plan: [{"
    "  name: 'forward',"
    "  container_meta_type: {encoded_inp_str: 'T2#1#0$,*', encoded_out_str: 'T1#1($)'},"
    "  values: ["
    "    {val: Tensor {scalar_type: 6, sizes: [2 2], dim_order: [0 1],"
    "                  allocation_info: {memory_id: 1},"
    "                  extra_tensor_info: {fully_qualified_name: 'linear.weight'}}},"
    "    {val: Tensor {scalar_type: 6, sizes: [2 2], dim_order: [0 1], data_buffer_idx: 1,"
    "                  extra_tensor_info: {fully_qualified_name: 'linear.weight'}}},"
    "    {val: Null {}},"
    "    {val: Int {int_val: 7}},"
    "    {val: Bool {}},"
    "    {val: String {string_val: 'nearest'}},"
    "    {val: IntList {items: [3 3]}},"
    "    {val: DoubleList {items: [0.5 2.0]}},"
    "    {val: BoolList {items: [1 0 1]}},"
    "    {val: TensorList {items: [0 1]}},"
    "    {val: OptionalTensorList {items: [0 -1]}}],"
    "  inputs: [0], outputs: [0],"
    "  chains: [{"
    "    inputs: [], outputs: [],"
    "    instructions: ["
    "      {instr_args: KernelCall {args: [0 1 3 0 0]}},"
    "      {instr_args: DelegateCall {args: [0]}},"
    "      {instr_args: MoveCall {}},"
    "      {instr_args: JumpFalseCall {}},"
    "      {instr_args: FreeCall {}}],"
    "    stacktrace: [{items: [{filename: 'model.py', name: 'forward', context: 'x + y'}]}]}],"
    "  operators: [{name: 'aten::add', overload: 'out'}],"
    "  delegates: [{id: 'Backend', processed: {},"
    "               compile_specs: [{key: 'k', value: [1 2 3]}]}],"
    "  non_const_buffer_sizes: [0 64],"
    "  non_const_buffer_device: [{}]}],"
    " constant_buffer: [],"
    " backend_delegate_data: [{data: 'payload'}],"
    " segments: [{offset: 0, size: 32} {offset: 32, size: 16} {offset: 48, size: 0}],"
    " constant_segment: {offsets: [0 16]},"
    " mutable_data_segments: [{offsets: [0 16]}],"
    " named_data: [{key: 'weights', segment_index: 1}]}";

static const char DATA[] =
    "{segments: [{offset: 0, size: 32} {offset: 32, size: 16} {offset: 48, size: 0}],"
    " named_data: [{key: 'weight', segment_index: 1,"
    "               tensor_layout: {scalar_type: 6, sizes: [2 2], dim_order: [0 1]}},"
    "              {key: 'blob'}]}";

/* Returns where they begin. */
static size_t put_segments(ec_fb_writer *b) {
  const size_t start = ec_fb_put(b, NULL, 0, 16);
  for (unsigned i = 0; i < EC_SAMPLE_SEGMENTS; i++) ec_fb_put(b, &(uint8_t){(uint8_t)i}, 1, 1);
  return start;
}

void ec_sample_pte(ec_fb_writer *b) {
  ec_build_begin(b, 8 + EC_SAMPLE_HEADER);
  memcpy(b->data + 4, "ET12eh00", 8);
  ec_text_build(b, ec_pte_schema(), PROGRAM);
  const size_t end = put_segments(b);
  ec_fb_poke(b, 12, EC_SAMPLE_HEADER, 4);
  ec_fb_poke(b, 16, end, 8);
  ec_fb_poke(b, 24, end, 8);
  ec_fb_poke(b, 32, EC_SAMPLE_SEGMENTS, 8);
}

size_t ec_sample_pte_program_size(const ec_fb_writer *b) { return b->size - EC_SAMPLE_SEGMENTS; }

void ec_sample_ptd(ec_fb_writer *b) {
  ec_build_begin(b, 48);
  memcpy(b->data + 4, "FT01FH01", 8);
  ec_text_build(b, ec_ptd_schema(), DATA);
  const size_t end = put_segments(b);
  ec_fb_poke(b, 12, 40, 4);
  ec_fb_poke(b, 16, 48, 8);
  ec_fb_poke(b, 24, end - 48, 8);
  ec_fb_poke(b, 32, end, 8);
  ec_fb_poke(b, 40, EC_SAMPLE_SEGMENTS, 8);
}

static uint64_t sum(const uint8_t *bytes, size_t size) {
  uint64_t total = 0;
  for (size_t i = 0; i < size; i++) total += bytes[i];
  return total;
}

static uint64_t read_field(ec_fb_table table, const ec_fb_field *f) {
  uint64_t total = 0;
  ec_fb_vec v = {NULL, 0};
  switch ((ec_fb_type)f->type) {
  case EC_FB_SCALAR: return ec_fb_get(table, f->id, f->size, 0);
  case EC_FB_STRING: {
    const char *text = ec_fb_string(table, f->id);
    return text ? strlen(text) + sum((const uint8_t *)text, ec_fb_string_size(table, f->id)) : 0;
  }
  case EC_FB_VECTOR:
    v = ec_fb_vector(table, f->id);
    return sum(v.items, (size_t)v.count * f->size);
  case EC_FB_TABLE: return ec_sample_read_all(ec_fb_child(table, f->id), f->tables[0]);
  case EC_FB_TABLES:
    v = ec_fb_vector(table, f->id);
    for (uint32_t i = 0; i < v.count; i++)
      total += ec_sample_read_all(ec_fb_vec_table(v, i), f->tables[0]);
    return total;
  case EC_FB_STRINGS:
    v = ec_fb_vector(table, f->id);
    for (uint32_t i = 0; i < v.count; i++) total += strlen(ec_fb_vec_string(v, i));
    return total;
  case EC_FB_UNION: {
    uint8_t type = ec_fb_u8(table, f->id - 1u);
    if (type == 0 || type >= f->table_count) return 0;
    return ec_sample_read_all(ec_fb_union(table, f->id, type), f->tables[type]);
  }
  }
  return 0;
}

uint64_t ec_sample_read_all(ec_fb_table table, const ec_fb_schema *schema) {
  uint64_t total = 0;
  for (size_t i = 0; table && i < schema->field_count; i++)
    total += read_field(table, &schema->fields[i]);
  return total;
}
