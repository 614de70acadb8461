/* A plug-in operator as a kernel. Its arguments are structs of backend.h in scratch memory. */
#include "runtime/operator.h"

#include "runtime/arg.h"
#include "runtime/host_call.h"

/* ---- calls ------------------------------------------------------------------------------- */

static ec_status call_operator(ec_call *c) {
  const ec_operator *self = c->op->user;
  ec_backend_arg views[EC_MAX_OP_ARGS];
  for (size_t i = 0; i < c->op->nargs; i++)
    EC_TRY(ec_arg_view_as(&c->op->args[i], c->args[i], c->scratch, &views[i], c->err));
  ec_host_call call = ec_host_call_of(c->method, c->scratch, c->err);
  ec_error_clear(c->err);
  ec_status status = (ec_status)self->run(self, &ec_host_table, &call, views, c->op->nargs);
  if (status != EC_OK && c->err && !c->err->message[0])
    return ec_fail(c->err, status, "failed without a sentence");
  return status;
}

/* ---- registration ------------------------------------------------------------------------ */

static ec_status check_table(const ec_operators *o, ec_error *err) {
  if (!o || o->abi_version != EC_OPERATOR_ABI_VERSION)
    return ec_fail(err, EC_INVALID_ARGUMENT, "operators have ABI version %u, expected %u",
                   o ? o->abi_version : 0, EC_OPERATOR_ABI_VERSION);
  if (o->struct_size < sizeof *o || o->row_size < sizeof *o->rows || !o->origin ||
      (o->count && !o->rows))
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "the table of operators is incomplete: origin and rows are needed, and structs "
                   "of at least %zu and %zu bytes (found %zu and %zu)",
                   sizeof *o, sizeof *o->rows, o->struct_size, o->row_size);
  return EC_OK;
}

static const ec_operator *row_at(const ec_operators *o, size_t i) {
  return (const ec_operator *)(const void *)((const char *)o->rows + i * o->row_size);
}

static bool is_same_row(void *user, void *arg) { return user == arg; }

static ec_status register_row(const ec_operators *o, const ec_operator *row, ec_error *err) {
  if (!row->schema || !row->run)
    return ec_fail(err, EC_INVALID_ARGUMENT, "%s: an operator without %s", o->origin,
                   row->schema ? "run" : "schema");
  const ec_op_def def = {row->schema, o->origin, call_operator, (void *)(uintptr_t)row, NULL, NULL};
  ec_status status = ec_op_register(&def, false, err);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "%s", o->origin);
}

ec_status ec_operators_register(const ec_operators *o, ec_error *err) {
  EC_TRY(check_table(o, err));
  EC_TRY(ec_ops_init(err));
  bool registered_before = false; /* some rows are: existing ones stay registered on failure */
  for (size_t i = 0; i < o->count; i++) {
    const ec_operator *row = row_at(o, i);
    bool here = ec_op_is_registered(call_operator, row);
    registered_before = registered_before || here;
    ec_status status = here ? EC_OK : register_row(o, row, err);
    if (status == EC_OK) continue;
    while (!registered_before && i-- > 0)
      ec_op_unregister_all(call_operator, is_same_row, (void *)(uintptr_t)row_at(o, i));
    return status;
  }
  return EC_OK;
}
