/* The reference's InternalConsistency level, for every method of a program. */
#include "format/pte_check.h"

#include <inttypes.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/dtype.h"
#include "core/limits.h"
#include "format/pte_fields.h"

/* Element size assumed for dtypes that this runtime does not know. */
enum { WIDEST_ELEMENT = 16, DTYPE_IDS = 30 };

/* The set of a method's values that are inputs: one bit each, built at the first query. */
typedef struct input_set {
  ec_fb_table plan;
  size_t values;
  uint8_t *bits;
} input_set;

static ec_status is_input(input_set *set, uint32_t value, bool *out, ec_error *err) {
  ec_fb_vec inputs = ec_fb_vector(set->plan, EC_PTE_ExecutionPlan_inputs);
  if (!set->bits) {
    set->bits = ec_alloc_zeroed(set->values / 8 + 1);
    if (!set->bits)
      return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a bit per value");
    for (uint32_t i = 0; i < inputs.count; i++) {
      int32_t index = ec_fb_vec_i32(inputs, i);
      if (index >= 0 && (size_t)index < set->values)
        set->bits[index / 8] |= (uint8_t)(1u << (index % 8));
    }
  }
  *out = set->bits[value / 8] >> (value % 8) & 1;
  return EC_OK;
}

/* True if the product of `sizes`, in bytes, fits. */
static bool is_possible_size(ec_fb_vec sizes, size_t element) {
  size_t total = element;
  bool zero = false, ok = true;
  for (uint32_t d = 0; d < sizes.count; d++) {
    int32_t size = ec_fb_vec_i32(sizes, d);
    if (size == 0) zero = true;
    else ok = ok && ec_mul_size(total, (size_t)size, &total);
  }
  return zero || (ok && total <= EC_MAX_BYTES);
}

static ec_status check_tensor(ec_fb_table tensor, ec_error *err) {
  ec_fb_vec sizes = ec_fb_vector(tensor, EC_PTE_Tensor_sizes);
  if (!sizes.items) return ec_fail(err, EC_INVALID_PROGRAM, "the tensor has no sizes");
  for (uint32_t d = 0; d < sizes.count; d++)
    if (ec_fb_vec_i32(sizes, d) < 0)
      return ec_fail(err, EC_INVALID_PROGRAM,
                     "size %" PRId32 " of dimension %" PRIu32 " is negative",
                     ec_fb_vec_i32(sizes, d), d);
  int dtype = ec_fb_i8(tensor, EC_PTE_Tensor_scalar_type);
  if (dtype < 0 || dtype >= DTYPE_IDS)
    return ec_fail(err, EC_INVALID_PROGRAM, "scalar type %d is unknown", dtype);
  size_t element = ec_dtype_size((ec_dtype)dtype);
  if (!is_possible_size(sizes, element ? element : WIDEST_ELEMENT))
    return ec_fail(err, EC_INVALID_PROGRAM, "the tensor's bytes overflow");
  return EC_OK;
}

static ec_status check_tensor_list(ec_fb_vec values, ec_fb_table list, ec_error *err) {
  ec_fb_vec items = ec_fb_vector(list, EC_PTE_TensorList_items);
  if (!items.items) return ec_fail(err, EC_INVALID_PROGRAM, "the tensor list has no items");
  for (uint32_t i = 0; i < items.count; i++) {
    int32_t index = ec_fb_vec_i32(items, i);
    if (index < 0 || (uint32_t)index >= values.count)
      return ec_fail(err, EC_INVALID_PROGRAM,
                     "item %" PRIu32 " is value %" PRId32 ", but there are %" PRIu32 " values", i,
                     index, values.count);
    ec_fb_table value = ec_fb_vec_table(values, (uint32_t)index);
    if (ec_fb_u8(value, EC_PTE_EValue_val_type) != EC_PTE_TENSOR)
      return ec_fail(err, EC_INVALID_PROGRAM, "item %" PRIu32 " is value %" PRId32
                     ", which is not a tensor", i, index);
  }
  return EC_OK;
}

/* Checks a value. Like the reference, it accepts any sizes of a dynamic input: they are upper
 * bounds that may never be reached. Loading refuses them if they need memory. */
static ec_status check_value(input_set *inputs, ec_fb_vec values, uint32_t index, ec_error *err) {
  ec_fb_table value = ec_fb_vec_table(values, index);
  uint8_t type = ec_fb_u8(value, EC_PTE_EValue_val_type);
  if (type != EC_PTE_TENSOR && type != EC_PTE_TENSOR_LIST) return EC_OK;
  ec_fb_table held = ec_fb_child(value, EC_PTE_EValue_val);
  if (!held) return ec_fail(err, EC_INVALID_PROGRAM, "the value is missing");
  if (type == EC_PTE_TENSOR_LIST) return check_tensor_list(values, held, err);
  ec_status status = check_tensor(held, err);
  if (status == EC_OK || ec_fb_i8(held, EC_PTE_Tensor_shape_dynamism) == 0) return status;
  bool tolerated = false;
  EC_TRY(is_input(inputs, index, &tolerated, err));
  if (!tolerated) return status;
  ec_error_clear(err);
  return EC_OK;
}

static ec_status check_plan(ec_fb_table plan, ec_error *err) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  if (!values.items) return ec_fail(err, EC_INVALID_PROGRAM, "the method has no values");
  input_set inputs = {plan, values.count, NULL};
  ec_status status = EC_OK;
  for (uint32_t i = 0; i < values.count && status == EC_OK; i++) {
    status = check_value(&inputs, values, i, err);
    if (status != EC_OK) ec_fail_in(err, status, "values[%" PRIu32 "]", i);
  }
  ec_free(inputs.bits);
  return status;
}

ec_status ec_pte_check_program(ec_fb_table program, ec_error *err) {
  ec_fb_vec plans = ec_fb_vector(program, EC_PTE_Program_execution_plan);
  if (!plans.items) return ec_fail(err, EC_INVALID_PROGRAM, "the program has no execution_plan");
  for (uint32_t i = 0; i < plans.count; i++) {
    ec_status status = check_plan(ec_fb_vec_table(plans, i), err);
    if (status != EC_OK) return ec_fail_in(err, status, "execution_plan[%" PRIu32 "]", i);
  }
  return EC_OK;
}
