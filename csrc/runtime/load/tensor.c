/* Tensors: conversion of a row to a native tensor, and the location of its data. */
#include "runtime/load/tensor.h"

#include <inttypes.h>
#include <string.h>

#include "core/small.h"
#include "runtime/load/cost.h"
#include "runtime/program_internal.h"

/* Returns the address alignment that loops rely on. An item of complex128 is two doubles. */
static size_t item_align(const ec_tensor *t) {
  size_t item = ec_dtype_size(ec_tensor_dtype(t));
  return item > 8 ? 8 : item;
}

/* Places a tensor in planned memory. An empty tensor may have any offset: planners give it that of
 * a live tensor. */
static ec_status place_planned(const ec_value_row *row, const ec_tensor *t, ec_placement *p,
                               ec_error *err) {
  if (p->nbytes == 0) return EC_OK;
  if (row->offset % item_align(t) != 0)
    return ec_fail(err, EC_INVALID_PROGRAM,
                   "offset %" PRIu64 " is not a multiple of %zu bytes (%s)",
                   row->offset, item_align(t), ec_dtype_name(ec_tensor_dtype(t)));
  p->arena = row->arena;
  p->offset = row->offset;
  p->capacity = p->nbytes;
  return EC_OK;
}

/* The most recent copies of constants, by address. */
enum { KEPT_COPIES = 64 };
struct ec_copies {
  struct {
    const uint8_t *bytes;
    size_t size;
    void *copy;
  } rows[KEPT_COPIES];
};

/* Copies a constant to an aligned address. Tensors with the same bytes share the copy. */
static ec_status copy_constant(ec_method *m, const uint8_t *bytes, size_t size, void **out,
                               ec_error *err) {
  if (!m->copies)
    EC_TRY(ec_arena_array(&m->arena, 1, sizeof *m->copies, "copies", &m->copies, err));
  const size_t at = (uintptr_t)bytes / 4 % KEPT_COPIES;
  if (m->copies->rows[at].bytes != bytes || m->copies->rows[at].size != size) {
    EC_TRY(ec_charge_reading(size, err));
    EC_TRY(ec_arena_array(&m->arena, size, 1, "an unaligned constant", out, err));
    memcpy(*out, bytes, size);
    m->copies->rows[at].bytes = bytes;
    m->copies->rows[at].size = size;
    m->copies->rows[at].copy = *out;
  }
  *out = m->copies->rows[at].copy;
  return EC_OK;
}

/* Places a constant: in the file, or in a copy if its address there is unaligned, of the program or
 * the method. */
static ec_status place_constant(ec_method *m, const ec_value_row *row, const ec_tensor *t,
                                const uint8_t *bytes, ec_placement *p, ec_error *err) {
  p->flags = EC_TENSOR_READONLY;
  p->capacity = p->nbytes;
  memcpy(&p->data, &bytes, sizeof p->data);
  if ((uintptr_t)bytes % item_align(t) == 0 || p->nbytes == 0) return EC_OK;
  const void *kept = NULL;
  if (!EC_IS_SMALL && row->external) kept = ec_program_copy(m->program, row->info.tensor.name);
  if (kept) {
    memcpy(&p->data, &kept, sizeof p->data);
    return ec_charge_reading(p->nbytes, err);
  }
  return copy_constant(m, bytes, p->nbytes, &p->data, err);
}

static ec_status add_initial(ec_method *m, ec_bytes bytes, ec_placement *p, ec_error *err) {
  p->defined = true;
  if (p->nbytes) m->initials[m->initial_count++] = (ec_initial){p, bytes.data};
  return ec_charge_reading(p->nbytes, err);
}

static ec_status init_tensor(ec_method *m, const ec_value_row *row, ec_tensor *t, ec_placement *p,
                             ec_error *err) {
  const ec_tensor_info *info = &row->info.tensor;
  EC_TRY(ec_tensor_init(t, info->dtype, info->rank, info->sizes, info->dim_order, err));
  t->dynamism = (uint8_t)info->dynamism;
  p->nbytes = info->nbytes;
  if (t->dynamism == EC_STATIC) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, t->rank, sizeof *t->sizes, "sizes", &p->sizes, err));
  memcpy(p->sizes, t->sizes, t->rank * sizeof *t->sizes);
  return EC_OK;
}

ec_status ec_load_tensor(ec_method *m, const ec_value_row *row, ec_tensor *t, ec_placement *p,
                         ec_error *err) {
  ec_bytes bytes;
  EC_TRY(init_tensor(m, row, t, p, err));
  if (row->info.tensor.device != 0)
    return ec_fail_device(err, row->info.tensor.device, "the tensor");
  EC_TRY(ec_tensor_bytes(m->program, row, &bytes, err));
  if (row->arena) EC_TRY(place_planned(row, t, p, err));
  else if (bytes.data) EC_TRY(place_constant(m, row, t, bytes.data, p, err));
  if (row->arena && bytes.data) EC_TRY(add_initial(m, bytes, p, err));
  t->data = p->data;
  t->capacity = p->capacity;
  t->flags = p->flags;
  return EC_OK;
}
