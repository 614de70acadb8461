/* Blocks of shared state: creation, reset, and the program's list. */
#include "runtime/memory/state_block.h"

#include <string.h>

#include "core/alloc.h"

void ec_state_block_free(ec_state_block *block) {
  if (!block) return;
  ec_arena_deinit(&block->arena);
  ec_free(block->bytes);
  ec_free(block);
}

ec_status ec_state_block_new(uint32_t id, size_t size, ec_state_block **out, ec_error *err) {
  enum { PAGE = 4096 }; /* the largest alignment that a method uses */
  ec_state_block *block = ec_alloc_zeroed(sizeof *block);
  if (block) block->bytes = ec_alloc_aligned(size, PAGE);
  if (!block || !block->bytes) {
    ec_state_block_free(block);
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                   "no memory for %zu bytes of shared memory %u", size, id);
  }
  block->id = id;
  block->size = size;
  *out = block;
  return EC_OK;
}

void ec_state_block_reset(const ec_state_block *block) {
  ec_clear(block->bytes, block->size);
  for (const ec_state_initial *i = block->initials; i; i = i->next)
    memcpy(block->bytes + i->offset, i->bytes, i->size);
}

static ec_state_block *find_block(ec_state_block *first, uint32_t id, size_t size) {
  while (first && (first->id != id || first->size != size)) first = first->next;
  return first;
}

const ec_state_block *ec_state_blocks_find(ec_state_blocks *blocks, uint32_t id, size_t size) {
  return find_block(atomic_load(&blocks->first), id, size);
}

const ec_state_block *ec_state_blocks_add(ec_state_blocks *blocks, ec_state_block *block) {
  ec_state_block *first = atomic_load(&blocks->first);
  for (;;) {
    ec_state_block *existing = find_block(first, block->id, block->size);
    if (existing) {
      ec_state_block_free(block);
      return existing;
    }
    block->next = first;
    if (atomic_compare_exchange_strong(&blocks->first, &first, block)) return block;
  }
}

void ec_state_blocks_deinit(ec_state_blocks *blocks) {
  ec_state_block *block = atomic_load(&blocks->first);
  while (block) {
    ec_state_block *next = block->next;
    ec_state_block_free(block);
    block = next;
  }
}
