/* The hand-made files, and a reader of everything. */
#include "testing/sample.h"

#include "core/dtype.h"
#include "format/ptd.h"
#include "format/pte.h"

static const ec_fb_schema *child(const ec_fb_schema *schema, unsigned id) {
  return ec_schema_child(schema, id, 0);
}

void ec_sample_poke(ec_build *b, size_t at, uint64_t value, size_t size) {
  memcpy(b->data + at, &value, size);
}

static size_t value_of(ec_build *b, size_t slot, const ec_fb_schema *schema, uint8_t type,
                       const ec_fb_schema **held) {
  size_t value = ec_build_table(b, schema);
  ec_build_link(b, slot, value);
  ec_build_scalar(b, value, EC_PTE_EValue_val_type, type, 1);
  *held = ec_schema_child(schema, EC_PTE_EValue_val, type);
  return ec_build_child(b, value, EC_PTE_EValue_val, *held);
}

static void put_tensor(ec_build *b, size_t slot, const ec_fb_schema *schema, unsigned constant) {
  const ec_fb_schema *s;
  const int32_t sizes[] = {2, 2};
  const uint8_t dim_order[] = {0, 1};
  size_t t = value_of(b, slot, schema, EC_PTE_TENSOR, &s);
  ec_build_scalar(b, t, EC_PTE_Tensor_scalar_type, EC_FLOAT32, 1);
  ec_build_vector(b, t, EC_PTE_Tensor_sizes, sizes, 2, 4);
  ec_build_vector(b, t, EC_PTE_Tensor_dim_order, dim_order, 2, 1);
  ec_build_scalar(b, t, EC_PTE_Tensor_data_buffer_idx, constant, 4);
  size_t extra = ec_build_child(b, t, EC_PTE_Tensor_extra_tensor_info,
                                child(s, EC_PTE_Tensor_extra_tensor_info));
  ec_build_string(b, extra, EC_PTE_ExtraTensorInfo_fully_qualified_name, "linear.weight");
  if (constant) ec_build_drop(b, t, EC_PTE_Tensor_allocation_info);
  else {
    const ec_fb_schema *a = child(s, EC_PTE_Tensor_allocation_info);
    size_t info = ec_build_child(b, t, EC_PTE_Tensor_allocation_info, a);
    ec_build_scalar(b, info, EC_PTE_AllocationDetails_memory_id, 1, 4);
  }
}

static void put_values(ec_build *b, size_t plan, const ec_fb_schema *schema) {
  const ec_fb_schema *s = child(schema, EC_PTE_ExecutionPlan_values), *held;
  const int64_t ints[] = {3, 3};
  const int32_t tensors[] = {0, 1}, optional[] = {0, -1};
  const double doubles[] = {0.5, 2};
  const uint8_t bools[] = {1, 0, 1};
  size_t slot = ec_build_slots(b, plan, EC_PTE_ExecutionPlan_values, 11), at;
  put_tensor(b, slot, s, 0);
  put_tensor(b, slot + 4, s, 1);
  value_of(b, slot + 8, s, EC_PTE_NULL, &held);
  at = value_of(b, slot + 12, s, EC_PTE_INT, &held);
  ec_build_scalar(b, at, EC_PTE_Int_int_val, 7, 8);
  value_of(b, slot + 16, s, EC_PTE_BOOL, &held);
  at = value_of(b, slot + 20, s, EC_PTE_STRING, &held);
  ec_build_string(b, at, EC_PTE_String_string_val, "nearest");
  at = value_of(b, slot + 24, s, EC_PTE_INT_LIST, &held);
  ec_build_vector(b, at, EC_PTE_IntList_items, ints, 2, 8);
  at = value_of(b, slot + 28, s, EC_PTE_DOUBLE_LIST, &held);
  ec_build_vector(b, at, EC_PTE_DoubleList_items, doubles, 2, 8);
  at = value_of(b, slot + 32, s, EC_PTE_BOOL_LIST, &held);
  ec_build_vector(b, at, EC_PTE_BoolList_items, bools, 3, 1);
  at = value_of(b, slot + 36, s, EC_PTE_TENSOR_LIST, &held);
  ec_build_vector(b, at, EC_PTE_TensorList_items, tensors, 2, 4);
  at = value_of(b, slot + 40, s, EC_PTE_OPTIONAL_TENSOR_LIST, &held);
  ec_build_vector(b, at, EC_PTE_OptionalTensorList_items, optional, 2, 4);
}

static size_t put_instruction(ec_build *b, size_t slot, const ec_fb_schema *s, uint8_t type) {
  size_t at = ec_build_table(b, s);
  ec_build_link(b, slot, at);
  ec_build_scalar(b, at, EC_PTE_Instruction_instr_args_type, type, 1);
  return ec_build_child(b, at, EC_PTE_Instruction_instr_args,
                        ec_schema_child(s, EC_PTE_Instruction_instr_args, type));
}

static void put_chain(ec_build *b, size_t plan, const ec_fb_schema *schema) {
  const int32_t args[] = {0, 1, 3, 0, 0}, none[] = {0};
  const ec_fb_schema *s = child(schema, EC_PTE_ExecutionPlan_chains);
  size_t chain = ec_build_one(b, plan, EC_PTE_ExecutionPlan_chains, s);
  ec_build_vector(b, chain, EC_PTE_Chain_inputs, none, 0, 4);
  ec_build_vector(b, chain, EC_PTE_Chain_outputs, none, 0, 4);
  size_t slot = ec_build_slots(b, chain, EC_PTE_Chain_instructions, 5), at;
  const ec_fb_schema *instruction = child(s, EC_PTE_Chain_instructions);
  at = put_instruction(b, slot, instruction, EC_PTE_KERNEL_CALL);
  ec_build_vector(b, at, EC_PTE_KernelCall_args, args, 5, 4);
  at = put_instruction(b, slot + 4, instruction, EC_PTE_DELEGATE_CALL);
  ec_build_vector(b, at, EC_PTE_DelegateCall_args, args, 1, 4);
  put_instruction(b, slot + 8, instruction, EC_PTE_MOVE_CALL);
  put_instruction(b, slot + 12, instruction, EC_PTE_JUMP_FALSE_CALL);
  put_instruction(b, slot + 16, instruction, EC_PTE_FREE_CALL);
  s = child(s, EC_PTE_Chain_stacktrace);
  size_t list = ec_build_one(b, chain, EC_PTE_Chain_stacktrace, s);
  size_t frame = ec_build_one(b, list, EC_PTE_FrameList_items, child(s, EC_PTE_FrameList_items));
  ec_build_string(b, frame, EC_PTE_Frame_filename, "model.py");
  ec_build_string(b, frame, EC_PTE_Frame_name, "forward");
  ec_build_string(b, frame, EC_PTE_Frame_context, "x + y");
}

static void put_plan(ec_build *b, size_t plan, const ec_fb_schema *s) {
  const int32_t in[] = {0}, out[] = {0};
  const int64_t arenas[] = {0, 64};
  const uint8_t spec_value[] = {1, 2, 3};
  ec_build_string(b, plan, EC_PTE_ExecutionPlan_name, "forward");
  size_t at = ec_build_child(b, plan, EC_PTE_ExecutionPlan_container_meta_type,
                             child(s, EC_PTE_ExecutionPlan_container_meta_type));
  ec_build_string(b, at, EC_PTE_ContainerMetadata_encoded_inp_str, "T2#1#0$,*");
  ec_build_string(b, at, EC_PTE_ContainerMetadata_encoded_out_str, "T1#1($)");
  put_values(b, plan, s);
  ec_build_vector(b, plan, EC_PTE_ExecutionPlan_inputs, in, 1, 4);
  ec_build_vector(b, plan, EC_PTE_ExecutionPlan_outputs, out, 1, 4);
  put_chain(b, plan, s);
  at = ec_build_one(b, plan, EC_PTE_ExecutionPlan_operators,
                    child(s, EC_PTE_ExecutionPlan_operators));
  ec_build_string(b, at, EC_PTE_Operator_name, "aten::add");
  ec_build_string(b, at, EC_PTE_Operator_overload, "out");
  const ec_fb_schema *d = child(s, EC_PTE_ExecutionPlan_delegates);
  at = ec_build_one(b, plan, EC_PTE_ExecutionPlan_delegates, d);
  ec_build_string(b, at, EC_PTE_BackendDelegate_id, "Backend");
  ec_build_child(b, at, EC_PTE_BackendDelegate_processed,
                 child(d, EC_PTE_BackendDelegate_processed));
  at = ec_build_one(b, at, EC_PTE_BackendDelegate_compile_specs,
                    child(d, EC_PTE_BackendDelegate_compile_specs));
  ec_build_string(b, at, EC_PTE_CompileSpec_key, "k");
  ec_build_vector(b, at, EC_PTE_CompileSpec_value, spec_value, 3, 1);
  ec_build_vector(b, plan, EC_PTE_ExecutionPlan_non_const_buffer_sizes, arenas, 2, 8);
  ec_build_one(b, plan, EC_PTE_ExecutionPlan_non_const_buffer_device,
               child(s, EC_PTE_ExecutionPlan_non_const_buffer_device));
}

static void put_segment(ec_build *b, size_t slot, const ec_fb_schema *s, uint64_t offset,
                        uint64_t size) {
  size_t at = ec_build_table(b, s);
  ec_build_link(b, slot, at);
  ec_build_scalar(b, at, 0, offset, 8); /* offset and size in both schemas */
  ec_build_scalar(b, at, 1, size, 8);
}

static void put_segments(ec_build *b, size_t root, unsigned id, const ec_fb_schema *s) {
  size_t slot = ec_build_slots(b, root, id, 3);
  put_segment(b, slot, s, 0, 32);
  put_segment(b, slot + 4, s, 32, 16);
  put_segment(b, slot + 8, s, 48, 0);
}

void ec_sample_pte(ec_build *b) {
  const ec_fb_schema *s = ec_pte_schema();
  const uint64_t offsets[] = {0, 16};
  *b = (ec_build){.size = 8 + EC_SAMPLE_HEADER};
  memcpy(b->data + 4, "ET12eh00", 8);
  size_t root = ec_build_table(b, s);
  ec_build_link(b, 0, root);
  size_t plan = ec_build_one(b, root, EC_PTE_Program_execution_plan,
                             child(s, EC_PTE_Program_execution_plan));
  put_plan(b, plan, child(s, EC_PTE_Program_execution_plan));
  ec_build_slots(b, root, EC_PTE_Program_constant_buffer, 0);
  size_t at = ec_build_one(b, root, EC_PTE_Program_backend_delegate_data,
                           child(s, EC_PTE_Program_backend_delegate_data));
  ec_build_vector(b, at, EC_PTE_BackendDelegateInlineData_data, "payload", 7, 1);
  put_segments(b, root, EC_PTE_Program_segments, child(s, EC_PTE_Program_segments));
  at = ec_build_child(b, root, EC_PTE_Program_constant_segment,
                      child(s, EC_PTE_Program_constant_segment));
  ec_build_vector(b, at, EC_PTE_SubsegmentOffsets_offsets, offsets, 2, 8);
  at = ec_build_one(b, root, EC_PTE_Program_mutable_data_segments,
                    child(s, EC_PTE_Program_mutable_data_segments));
  ec_build_vector(b, at, EC_PTE_SubsegmentOffsets_offsets, offsets, 2, 8);
  at = ec_build_one(b, root, EC_PTE_Program_named_data, child(s, EC_PTE_Program_named_data));
  ec_build_string(b, at, EC_PTE_NamedData_key, "weights");
  ec_build_scalar(b, at, EC_PTE_NamedData_segment_index, 1, 4);
  size_t end = ec_build_put(b, NULL, 0, 16);
  for (unsigned i = 0; i < EC_SAMPLE_SEGMENTS; i++)
    ec_build_put(b, &(uint8_t){(uint8_t)i}, 1, 1);
  ec_sample_poke(b, 12, EC_SAMPLE_HEADER, 4);
  ec_sample_poke(b, 16, end, 8);
  ec_sample_poke(b, 24, end, 8);
  ec_sample_poke(b, 32, EC_SAMPLE_SEGMENTS, 8);
}

size_t ec_sample_pte_program_size(const ec_build *b) { return b->size - EC_SAMPLE_SEGMENTS; }

size_t ec_sample_value(const ec_build *b, uint32_t index) {
  ec_fb_table root = ec_fb_root(b->data);
  ec_fb_table plan = ec_fb_vec_table(ec_fb_vector(root, EC_PTE_Program_execution_plan), 0);
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  return (size_t)(ec_fb_child(ec_fb_vec_table(values, index), EC_PTE_EValue_val) - b->data);
}

void ec_sample_ptd(ec_build *b) {
  const ec_fb_schema *s = ec_ptd_schema(), *n = child(s, EC_PTD_FlatTensor_named_data);
  const ec_fb_schema *l = child(n, EC_PTD_NamedData_tensor_layout);
  const int32_t sizes[] = {2, 2};
  const uint8_t dim_order[] = {0, 1};
  *b = (ec_build){.size = 48};
  memcpy(b->data + 4, "FT01FH01", 8);
  size_t root = ec_build_table(b, s);
  ec_build_link(b, 0, root);
  put_segments(b, root, EC_PTD_FlatTensor_segments, child(s, EC_PTD_FlatTensor_segments));
  size_t slot = ec_build_slots(b, root, EC_PTD_FlatTensor_named_data, 2);
  size_t at = ec_build_table(b, n);
  ec_build_link(b, slot, at);
  ec_build_string(b, at, EC_PTD_NamedData_key, "weight");
  ec_build_scalar(b, at, EC_PTD_NamedData_segment_index, 1, 4);
  at = ec_build_child(b, at, EC_PTD_NamedData_tensor_layout, l);
  ec_build_scalar(b, at, EC_PTD_TensorLayout_scalar_type, EC_FLOAT32, 1);
  ec_build_vector(b, at, EC_PTD_TensorLayout_sizes, sizes, 2, 4);
  ec_build_vector(b, at, EC_PTD_TensorLayout_dim_order, dim_order, 2, 1);
  at = ec_build_table(b, n);
  ec_build_link(b, slot + 4, at);
  ec_build_string(b, at, EC_PTD_NamedData_key, "blob");
  ec_build_drop(b, at, EC_PTD_NamedData_tensor_layout);
  size_t end = ec_build_put(b, NULL, 0, 16);
  for (unsigned i = 0; i < EC_SAMPLE_SEGMENTS; i++)
    ec_build_put(b, &(uint8_t){(uint8_t)i}, 1, 1);
  ec_sample_poke(b, 12, 40, 4);
  ec_sample_poke(b, 16, 48, 8);
  ec_sample_poke(b, 24, end - 48, 8);
  ec_sample_poke(b, 32, end, 8);
  ec_sample_poke(b, 40, EC_SAMPLE_SEGMENTS, 8);
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
