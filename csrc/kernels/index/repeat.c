/* repeat_interleave: repeats position i as often as the i-th number. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/index/index.h"

#define EC_TEMPLATE "kernels/index/repeat.tmpl.h"
#include "core/dtype/int32.h"
#include "core/dtype/int64.h"
#undef EC_TEMPLATE

ec_status ec_op_repeat_interleave_Tensor_out(ec_call *c) {
  const ec_tensor *repeats = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 2);
  int64_t *times, n = repeats->numel, total = 0;
  if (repeats->rank != 1)
    return ec_call_fail(c, 0, "%u dimensions, expected 1", (unsigned)repeats->rank);
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(repeats->dtype)));
  EC_TRY(ec_index_copy(c, 0, repeats, &times));
  for (int64_t i = 0; i < n; i++)
    if (times[i] < 0 || !ec_add_i64(total, times[i], &total))
      return ec_call_fail(c, 0, "%" PRId64 " repeats of position %" PRId64, times[i], i);
  int64_t expected = ec_arg_opt_int(c, 1, total);
  if (expected != total)
    return ec_call_fail(c, 1, "%" PRId64 ", but the repeats sum to %" PRId64, expected, total);
  EC_TRY(ec_call_resize(c, 2, 1, &total));
  if (total)
    (ec_tensor_dtype(out) == EC_INT64 ? repeat_int64 : repeat_int32)(n, times, total, out->data);
  return EC_OK;
}
