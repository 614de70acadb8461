/* Packages: the backend's program and data, checked. */
#include "runtime/package.h"

#include <string.h>

#include "backend/registry.h"
#include "core/alloc.h"
#include "core/limits.h"

static ec_status read_item(const ec_backend_package_item *item, ec_named_data *out, ec_error *err) {
  *out = (ec_named_data){.key = item->key, .bytes = {item->data, item->size}, .source = -1,
                         .copy = item->copy};
  if (!item->key || strlen(item->key) > EC_MAX_NAME || !ec_dtype_valid(item->dtype))
    return ec_fail(err, EC_INVALID_PROGRAM, "a tensor without a known dtype, or a key of more than "
                   "%d bytes", EC_MAX_NAME);
  EC_TRY(ec_tensor_init(&out->layout, (ec_dtype)item->dtype, item->rank, item->sizes, NULL, err));
  if (ec_tensor_nbytes(&out->layout) != item->size)
    return ec_fail(err, EC_INVALID_PROGRAM, "'%.64s' has %zu bytes, expected %zu", item->key,
                   item->size, ec_tensor_nbytes(&out->layout));
  out->has_layout = true;
  return EC_OK;
}

static ec_status read_items(ec_package *p, ec_arena *arena, ec_error *err) {
  ec_named_data *items;
  const size_t count = p->opened.item_count;
  EC_TRY(ec_arena_array(arena, count, sizeof *items, "a package's data", &items, err));
  EC_TRY(ec_arena_array(arena, p->opened.copies_size / EC_ALIGN + 1, 1, "a package's copies",
                        &p->is_copied, err));
  for (size_t i = 0; i < count; i++) EC_TRY(read_item(&p->opened.items[i], &items[i], err));
  p->items = (ec_named_list){items, count};
  return EC_OK;
}

ec_status ec_package_open(ec_package *out, const ec_source *file, ec_arena *arena, ec_error *err) {
  const ec_backend *backend;
  const char *what, *id = ec_backend_of_package(file->data, file->size, &what);
  if (!id) return EC_OK;
  ec_status status = ec_backend_require(id, &backend, err);
  if (status != EC_OK)
    return ec_fail_in(err, status, "this is not a .pte program but %s", what);
  status = ec_host_open_package(backend, file, &out->opened, err);
  if (status == EC_OK) status = read_items(out, arena, err);
  if (status != EC_OK) ec_package_close(out);
  return status == EC_OK ? EC_OK : ec_fail_in(err, status, "package");
}

const void *ec_package_copy(const ec_package *p, const ec_named_data *item) {
  const size_t at = (size_t)((uintptr_t)item->copy - (uintptr_t)p->opened.copies);
  if (!item->copy || at >= p->opened.copies_size) return NULL;
  if (!p->is_copied[at / EC_ALIGN]) memcpy(item->copy, item->bytes.data, item->bytes.size);
  p->is_copied[at / EC_ALIGN] = true;
  return item->copy;
}

void ec_package_close(ec_package *p) {
  ec_free(p->opened.program);
  ec_free(p->opened.items);
  ec_free(p->opened.copies);
  *p = (ec_package){0};
}
