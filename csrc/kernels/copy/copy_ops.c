/* Operators that only copy: clone, copy, to, alias, detach, lift_fresh, and their dim_order and
 * host/device forms. The output's own dim order decides the layout, so the arguments for a layout
 * (memory_format, dim_order) are ignored. */
#include "kernels/copy.h"
#include "kernels/promote.h"

/* Copies self's sizes and values to the output at `o`. Its dtype must be self's unless
 * `convert`. */
static ec_status copy_self(ec_call *c, size_t o, bool convert) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, o);
  if (!convert) EC_TRY(ec_call_check_dtype(c, o, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, o, self->rank, self->sizes));
  if (out->data == self->data && ec_tensor_same_layout(out, self)) {
    ec_copy_cast(c, out, self);
    return EC_OK;
  }
  const ec_view to = ec_view_of(out), from = ec_view_of(self);
  ec_copy_to_out(c, &to, &from);
  return EC_OK;
}

ec_status ec_op_clone_out(ec_call *c) { return copy_self(c, 2, false); }
ec_status ec_op_alias_copy_out(ec_call *c) { return copy_self(c, 1, false); }
ec_status ec_op_detach_copy_out(ec_call *c) { return copy_self(c, 1, false); }
ec_status ec_op_lift_fresh_copy_out(ec_call *c) { return copy_self(c, 1, false); }
ec_status ec_op_to_copy_out(ec_call *c) { return copy_self(c, 3, true); }
ec_status ec_op_to_dim_order_copy_out(ec_call *c) { return copy_self(c, 3, true); }
ec_status ec_op_clone_dim_order_out(ec_call *c) { return copy_self(c, 3, false); }
ec_status ec_op_h2d_copy_out(ec_call *c) { return copy_self(c, 1, false); }
ec_status ec_op_d2h_copy_out(ec_call *c) { return copy_self(c, 1, false); }

static ec_status check_source(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *src = ec_arg_tensor(c, 1);
  char from[EC_SHAPE_TEXT], to[EC_SHAPE_TEXT];
  if (ec_broadcasts_to(src->rank, src->sizes, self->rank, self->sizes)) return EC_OK;
  return ec_call_fail(c, 1, "shape %s does not broadcast to %s",
                      ec_shape_text(src->sizes, src->rank, from, sizeof from),
                      ec_shape_text(self->sizes, self->rank, to, sizeof to));
}

/* Returns the result of self.copy_(src): self's sizes and dtype, src's values. */
ec_status ec_op_copy_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *src = ec_arg_tensor(c, 1);
  EC_TRY(check_source(c));
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, 3, self->rank, self->sizes));
  EC_TRY(check_source(c)); /* out may be one of them */
  ec_copy_cast(c, ec_arg_tensor(c, 3), src);
  return EC_OK;
}

ec_status ec_op_copy_(ec_call *c) {
  EC_TRY(check_source(c));
  ec_copy_cast(c, ec_arg_tensor(c, 0), ec_arg_tensor(c, 1));
  return EC_OK;
}
