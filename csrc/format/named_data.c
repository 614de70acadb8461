/* The merged map of named data: sorted once, searched by bisection. */
#include "format/named_data.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/checked.h"
#include "core/limits.h"

static int compare_item_keys(const void *a, const void *b) {
  const char *left = ((const ec_named_data *)a)->key, *right = ((const ec_named_data *)b)->key;
  return left == right ? 0 : strcmp(left, right); /* tables may share a string */
}

/* Limits the length of keys: comparisons are frequent, and hostile files must not cost more than
 * their size. */
static ec_status read_key(ec_fb_table table, unsigned id, ec_named_data *item, ec_error *err) {
  item->key = ec_fb_string(table, id);
  if (!item->key) return ec_fail(err, EC_INVALID_PROGRAM, "the entry has no key");
  uint32_t bytes = ec_fb_string_size(table, id);
  if (bytes > EC_MAX_NAME)
    return ec_fail(err, EC_INVALID_PROGRAM, "a key of %" PRIu32 " bytes, at most %d are supported",
                   bytes, EC_MAX_NAME);
  return EC_OK;
}

/* Reads a layout. A tensor of an unsupported dtype stays a blob without one: only a program that
 * refers to it fails, with a message that names the key. */
static ec_status read_layout(ec_fb_table layout, ec_named_data *item, ec_error *err) {
  ec_fb_vec sizes = ec_fb_vector(layout, EC_PTD_TensorLayout_sizes);
  ec_fb_vec dim_order = ec_fb_vector(layout, EC_PTD_TensorLayout_dim_order);
  int dtype = ec_fb_i8(layout, EC_PTD_TensorLayout_scalar_type);
  int64_t wide[EC_MAX_RANK];
  if (!ec_dtype_valid(dtype)) return EC_OK;
  if (sizes.count != dim_order.count || sizes.count > EC_MAX_RANK)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA,
                   "%" PRIu32 " sizes and %" PRIu32 " dimensions in dim_order, at most %d",
                   sizes.count, dim_order.count, EC_MAX_RANK);
  for (uint32_t d = 0; d < sizes.count; d++) wide[d] = ec_fb_vec_i32(sizes, d);
  EC_TRY(ec_tensor_init(&item->layout, (ec_dtype)dtype, sizes.count, wide, dim_order.items, err));
  if (ec_tensor_nbytes(&item->layout) > item->bytes.size)
    return ec_fail(err, EC_INVALID_EXTERNAL_DATA, "%zu bytes of data for a tensor of %zu bytes",
                   item->bytes.size, ec_tensor_nbytes(&item->layout));
  item->has_layout = true;
  return EC_OK;
}

static ec_status read_program_item(const ec_pte *pte, ec_fb_table table, ec_named_data *item,
                                   ec_error *err) {
  item->source = -1;
  EC_TRY(read_key(table, EC_PTE_NamedData_key, item, err));
  return ec_pte_segment(pte, ec_fb_u32(table, EC_PTE_NamedData_segment_index), &item->bytes, err);
}

static ec_status read_file_item(const ec_ptd *ptd, size_t source, ec_fb_table table,
                                ec_named_data *item, ec_error *err) {
  item->source = (int)source;
  item->path = ptd->path;
  EC_TRY(read_key(table, EC_PTD_NamedData_key, item, err));
  EC_TRY(ec_ptd_segment(ptd, ec_fb_u32(table, EC_PTD_NamedData_segment_index), &item->bytes, err));
  ec_fb_table layout = ec_fb_child(table, EC_PTD_NamedData_tensor_layout);
  return layout ? read_layout(layout, item, err) : EC_OK;
}

const char *ec_named_data_place(const ec_named_data *entry, char text[EC_PTD_TEXT]) {
  return entry->source < 0 ? "the program"
                           : ec_ptd_text(entry->path, (size_t)entry->source, text);
}

static ec_status check_duplicates(const ec_named_map *map, ec_error *err) {
  char a[EC_PTD_TEXT], b[EC_PTD_TEXT];
  for (size_t i = 1; i < map->count; i++)
    if (compare_item_keys(&map->items[i - 1], &map->items[i]) == 0)
      return ec_fail(err, EC_INVALID_ARGUMENT, "named data '%.64s' is in %s and in %s",
                     map->items[i].key, ec_named_data_place(&map->items[i - 1], a),
                     ec_named_data_place(&map->items[i], b));
  return EC_OK;
}

static ec_status read_items(ec_named_map *map, const ec_pte *pte, const ec_ptd *ptds, size_t count,
                            ec_error *err) {
  ec_fb_vec rows = pte ? ec_fb_vector(pte->root, EC_PTE_Program_named_data) : (ec_fb_vec){NULL, 0};
  char text[EC_PTD_TEXT];
  size_t next = 0;
  for (uint32_t i = 0; i < rows.count; i++) {
    ec_status status = read_program_item(pte, ec_fb_vec_table(rows, i), &map->items[next++], err);
    if (status != EC_OK) return ec_fail_in(err, status, "program: named_data[%" PRIu32 "]", i);
  }
  for (size_t source = 0; source < count; source++) {
    rows = ec_fb_vector(ptds[source].root, EC_PTD_FlatTensor_named_data);
    for (uint32_t i = 0; i < rows.count; i++) {
      ec_status status = read_file_item(&ptds[source], source, ec_fb_vec_table(rows, i),
                                        &map->items[next++], err);
      if (status != EC_OK)
        return ec_fail_in(err, EC_INVALID_EXTERNAL_DATA, "%s: named_data[%" PRIu32 "]",
                          ec_ptd_text(ptds[source].path, source, text), i);
    }
  }
  return EC_OK;
}

ec_status ec_named_map_init(ec_named_map *map, const ec_pte *pte, const ec_ptd *ptds, size_t count,
                            const ec_named_list *items, ec_arena *arena, ec_error *err) {
  const size_t ready = items ? items->count : 0;
  *map = (ec_named_map){0};
  size_t total = pte ? ec_fb_vector(pte->root, EC_PTE_Program_named_data).count : 0;
  for (size_t i = 0; i < count; i++)
    total += ec_fb_vector(ptds[i].root, EC_PTD_FlatTensor_named_data).count;
  if (total + ready == 0) return EC_OK;
  ec_named_map all = {.count = total + ready};
  EC_TRY(ec_arena_array(arena, all.count, sizeof *all.items, "named data", &all.items, err));
  if (ready) memcpy(all.items + total, items->items, ready * sizeof *all.items);
  EC_TRY(read_items(&all, pte, ptds, count, err));
  qsort(all.items, all.count, sizeof *all.items, compare_item_keys);
  EC_TRY(check_duplicates(&all, err));
  *map = all;
  return EC_OK;
}

static int compare_key(const void *key, const void *item) {
  return strcmp(key, ((const ec_named_data *)item)->key);
}

const ec_named_data *ec_named_map_find(const ec_named_map *map, const char *key) {
  if (map->count == 0) return NULL;
  return bsearch(key, map->items, map->count, sizeof *map->items, compare_key);
}
