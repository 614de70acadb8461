/* Statuses of XNNPACK. */
#include "status.h"

static const char *const status_names[] = {
  [xnn_status_success] = "success",
  [xnn_status_uninitialized] = "uninitialized",
  [xnn_status_invalid_parameter] = "invalid parameter",
  [xnn_status_invalid_state] = "invalid state",
  [xnn_status_unsupported_parameter] = "unsupported parameter",
  [xnn_status_unsupported_hardware] = "unsupported hardware",
  [xnn_status_out_of_memory] = "out of memory",
  [xnn_status_reallocation_required] = "reallocation required",
  [xnn_status_deprecated] = "deprecated",
};

const char *ecx_status_name(enum xnn_status status) {
  bool known = (size_t)status < sizeof status_names / sizeof status_names[0];
  return known ? status_names[status] : "unknown status";
}

uint32_t ecx_status_code(enum xnn_status status) {
  if (status == xnn_status_out_of_memory) return EC_BACKEND_ALLOCATION_FAILED;
  if (status == xnn_status_unsupported_parameter) return EC_BACKEND_NOT_SUPPORTED;
  /* of the payload */
  if (status == xnn_status_invalid_parameter) return EC_BACKEND_INVALID_PROGRAM;
  return EC_BACKEND_INTERNAL;
}
