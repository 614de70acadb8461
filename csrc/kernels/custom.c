/* Operators registered at run time: a list guarded by a lock, newest first.
 *
 * The owner counts references to `user` (retain, release), so that its garbage collector can see
 * the holders: the registry, and each method. These calls may wait for a lock of the owner (the
 * GIL), so they are made without ours. `holds` counts acquisitions in progress; they keep the
 * registry's reference until they have retained their own. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "kernels/schema.h"

typedef struct custom {
  ec_op op; /* first: an ec_op with `custom` set is embedded in this struct */
  struct custom *older;
  void (*retain)(void *user);
  void (*release)(void *user);
  size_t refs;     /* of this struct: the registry, holds and methods */
  size_t holds;
  bool registered;
  bool released;   /* the registry's reference to `user` */
} custom;

static custom *newest;

static custom *find_locked(const char *name) {
  for (custom *c = newest; c; c = c->older)
    if (strcmp(c->op.name, name) == 0) return c;
  return NULL;
}

static void unref_custom(custom *c) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  bool last = --c->refs == 0;
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  if (last) ec_free(c);
}

/* Releases the registry's reference to `user` once no acquisition is in progress. */
static bool try_release_locked(custom *c) {
  if (c->registered || c->holds || c->released) return false;
  c->released = true;
  return true;
}

static void hold_locked(custom *c) {
  c->refs++;
  c->holds++;
}

static void unhold_custom(custom *c) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  c->holds--;
  bool last = try_release_locked(c);
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  if (last && c->release) c->release(c->op.user);
  unref_custom(c);
}

/* ---- registration ------------------------------------------------------------------------ */

static ec_status make_custom(const ec_op_def *def, custom **out, ec_error *err) {
  size_t schema = strnlen(def->schema, EC_MAX_SCHEMA + 1) + 1, origin = strlen(def->origin) + 1;
  custom *c = ec_alloc_zeroed(sizeof *c + 2 * schema + origin);
  if (!c) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for an operator");
  char *text = (char *)(c + 1);
  memcpy(text, def->schema, schema - 1);
  memcpy(text + schema, def->origin, origin);
  ec_status status = ec_schema_parse(text, text + schema + origin, &c->op, err);
  if (status == EC_OK) status = ec_schema_check_custom(&c->op, err);
  if (status != EC_OK) {
    ec_free(c);
    return status;
  }
  c->op.origin = text + schema;
  c->op.family = "custom";
  c->op.fn = def->fn;
  c->op.user = def->user;
  c->op.dtypes = EC_SET_STORED;
  c->op.custom = true;
  c->retain = def->retain;
  c->release = def->release;
  c->refs = 1;
  c->registered = true;
  *out = c;
  return EC_OK;
}

static bool same_args(const ec_op *a, const ec_op *b) {
  bool same = a->nargs == b->nargs;
  for (size_t i = 0; same && i < a->nargs; i++) {
    const ec_arg_spec *x = &a->args[i], *y = &b->args[i];
    same = x->type == y->type && x->is_list == y->is_list && x->optional == y->optional &&
           x->item_optional == y->item_optional && x->written == y->written &&
           x->is_out == y->is_out;
  }
  return same;
}

static ec_status check_locked(const ec_op *op, bool override, ec_error *err) {
  const custom *other = find_locked(op->name);
  const ec_op *before = other ? &other->op : ec_op_find(op->name);
  if (!before) return EC_OK;
  if (!override)
    return ec_fail(err, EC_REGISTRATION_EXISTS,
                   "operator %s is already registered (%s); use override to replace it",
                   op->name, before->origin);
  if (strncmp(op->name, "executorch_prim::", 17) == 0)
    return ec_fail(err, EC_NOT_SUPPORTED,
                   "operator %s is a part of the runtime and cannot be replaced", op->name);
  if (!same_args(op, before))
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "operator %s has other arguments than the operator it replaces: %s",
                   op->name, before->schema);
  return EC_OK;
}

ec_status ec_op_register(const ec_op_def *def, bool override, ec_error *err) {
  custom *c = NULL;
  EC_TRY(make_custom(def, &c, err));
  if (c->retain) c->retain(c->op.user);
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  ec_status status = check_locked(&c->op, override, err);
  if (status == EC_OK) {
    c->older = newest;
    newest = c;
  }
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  if (status == EC_OK) return EC_OK;
  if (c->release) c->release(c->op.user);
  ec_free(c);
  return status;
}

/* Removes `c` from the list; *at then points to the next one. */
static custom *remove_locked(custom **at) {
  custom *c = *at;
  *at = c->older;
  c->registered = false;
  hold_locked(c); /* unhold releases the registry's reference */
  c->refs--;      /* the registry's */
  return c;
}

ec_status ec_op_unregister(const char *name, ec_error *err) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  custom **at = &newest;
  while (*at && strcmp((*at)->op.name, name) != 0) at = &(*at)->older;
  custom *c = *at ? remove_locked(at) : NULL;
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  if (c) {
    unhold_custom(c);
    return EC_OK;
  }
  if (ec_op_find(name))
    return ec_fail(err, EC_INVALID_STATE, "operator %s is built in and cannot be removed", name);
  return ec_fail(err, EC_NOT_FOUND, "no operator %s is registered", name);
}

void ec_op_unregister_all(ec_kernel_fn fn, bool (*matches)(void *user, void *arg), void *arg) {
  for (;;) {
    ec_mutex_lock(EC_MUTEX_OPERATORS);
    custom **at = &newest;
    while (*at && ((*at)->op.fn != fn || !matches((*at)->op.user, arg))) at = &(*at)->older;
    custom *c = *at ? remove_locked(at) : NULL;
    ec_mutex_unlock(EC_MUTEX_OPERATORS);
    if (!c) return;
    unhold_custom(c);
  }
}

/* ---- lookup ------------------------------------------------------------------------------ */

bool ec_op_is_registered(ec_kernel_fn fn, const void *user) {
  bool is_used = false;
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  for (custom *c = newest; c; c = c->older)
    is_used = is_used || (c->op.fn == fn && c->op.user == user);
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  return is_used;
}

_Static_assert(EC_MAX_OP_ARGS <= 32, "one bit per argument");

static uint32_t outs_of(const ec_op *op) {
  uint32_t outs = 0;
  for (size_t i = 0; op && i < op->nargs; i++) outs |= (uint32_t)op->args[i].is_out << i;
  return outs;
}

uint32_t ec_op_outs(const char *name) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  const custom *c = find_locked(name);
  const uint32_t outs = c ? outs_of(&c->op) : 0;
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  return c ? outs : outs_of(ec_op_find(name));
}

bool ec_op_exists(const char *name) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  bool is_known = find_locked(name) != NULL;
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  return is_known || ec_op_find(name);
}

const ec_op *ec_op_acquire(const char *name) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  custom *c = find_locked(name);
  if (c) {
    hold_locked(c);
    c->refs++;
  }
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  if (!c) return ec_op_find(name);
  if (c->retain) c->retain(c->op.user);
  unhold_custom(c);
  return &c->op;
}

void ec_op_release(const ec_op *op) {
  if (!op || !op->custom) return;
  custom *c = (custom *)(uintptr_t)op;
  if (c->release) c->release(op->user);
  unref_custom(c);
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const ec_op *const *)a)->name, (*(const ec_op *const *)b)->name);
}

ec_status ec_op_list_init(ec_op_list *list, ec_error *err) {
  size_t rows = ec_op_count(), most = rows;
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  for (custom *c = newest; c; c = c->older) most++;
  *list = (ec_op_list){ec_alloc_array(most, sizeof *list->items), 0};
  if (!list->items) {
    ec_mutex_unlock(EC_MUTEX_OPERATORS);
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a list of operators");
  }
  for (custom *c = newest; c; c = c->older)
    if (find_locked(c->op.name) == c) {
      hold_locked(c);
      list->items[list->count++] = &c->op;
    }
  for (size_t i = 0; i < rows; i++)
    if (!find_locked(ec_op_at(i)->name)) list->items[list->count++] = ec_op_at(i);
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  qsort(list->items, list->count, sizeof *list->items, by_name);
  return EC_OK;
}

void ec_op_list_deinit(ec_op_list *list) {
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i]->custom) unhold_custom((custom *)(uintptr_t)list->items[i]);
  ec_free(list->items);
  *list = (ec_op_list){NULL, 0};
}
