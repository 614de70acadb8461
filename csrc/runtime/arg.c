/* Arguments: native values as the structs of backend.h. */
#include "runtime/arg.h"

void ec_arg_view(ec_value *value, ec_backend_arg *view) {
  view->kind = value->kind;
  view->slot = value;
  switch ((ec_kind)value->kind) {
  case EC_KIND_TENSOR: {
    const ec_tensor *t = value->as.tensor;
    view->as.tensor = (ec_backend_tensor){t->data, ec_tensor_nbytes(t), t->capacity, t->dtype,
                                          t->rank, !(t->flags & EC_TENSOR_READONLY), t->sizes,
                                          t->strides, t->dim_order};
    return;
  }
  case EC_KIND_INT: view->as.i = value->as.i; return;
  case EC_KIND_DOUBLE: view->as.d = value->as.d; return;
  case EC_KIND_BOOL: view->as.b = value->as.b; return;
  case EC_KIND_STRING:
    view->as.string.data = value->as.string;
    view->as.string.size = value->count;
    return;
  default: view->kind = EC_BACKEND_NONE;
  }
}
