/* Arrays that grow. */
#ifndef ECT_GROW_H
#define ECT_GROW_H

#include <string.h>

#include "executorch_c/backend.h"

/* Returns `items` with room for one more item of `width` bytes, moved if it was full; NULL without
 * memory, and then `items` is unchanged. */
static inline void *ect_grow(const ec_host *host, void *items, size_t *capacity, size_t count,
                             size_t width) {
  if (count < *capacity) return items;
  const size_t wanted = *capacity ? 2 * *capacity : 16;
  if (wanted > SIZE_MAX / 2 / width) return NULL;
  void *moved = host->alloc(wanted * width);
  if (!moved) return NULL;
  if (count) memcpy(moved, items, count * width);
  host->free(items);
  *capacity = wanted;
  return moved;
}

#endif
