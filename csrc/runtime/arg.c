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

static ec_status view_list(const ec_value *v, ec_arena *scratch, ec_backend_arg *view,
                           ec_error *err) {
  ec_backend_arg *items;
  EC_TRY(ec_arena_array(scratch, v->count, sizeof *items, "scratch", &items, err));
  for (uint32_t i = 0; i < v->count; i++) {
    if (v->kind == EC_KIND_BOOL_LIST)
      items[i] = (ec_backend_arg){.kind = EC_BACKEND_BOOL, .as.b = v->as.bools[i]};
    else if (v->kind == EC_KIND_DOUBLE_LIST)
      items[i] = (ec_backend_arg){.kind = EC_BACKEND_DOUBLE, .as.d = v->as.doubles[i]};
    else if (v->kind == EC_KIND_INT_LIST)
      items[i] = (ec_backend_arg){.kind = EC_BACKEND_INT, .as.i = ec_value_int(v->as.items[i])};
    else
      ec_arg_view(v->as.items[i], &items[i]);
  }
  *view = (ec_backend_arg){.kind = v->kind == EC_KIND_OPTIONAL_TENSOR_LIST ? EC_KIND_TENSOR_LIST
                                                                           : v->kind,
                           .as.list = {items, v->count}};
  return EC_OK;
}

ec_status ec_arg_view_as(const ec_arg_spec *spec, ec_value *v, ec_arena *scratch,
                         ec_backend_arg *view, ec_error *err) {
  if (v->kind > EC_KIND_BOOL) return view_list(v, scratch, view, err);
  ec_arg_view(v, view);
  if (!ec_is_number(v)) return EC_OK;
  switch ((ec_arg_type)spec->type) {
  case EC_ARG_INT:
    view->kind = EC_BACKEND_INT;
    view->as.i = ec_value_int(v);
    break;
  case EC_ARG_DOUBLE:
    view->kind = EC_BACKEND_DOUBLE;
    view->as.d = ec_value_double(v);
    break;
  case EC_ARG_BOOL:
    view->kind = EC_BACKEND_BOOL;
    view->as.b = ec_value_bool(v);
    break;
  default: break;
  }
  return EC_OK;
}
