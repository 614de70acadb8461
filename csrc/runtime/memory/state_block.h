/* Blocks of state shared by the methods of a program: planned memory with its initial contents. A
 * program's list of blocks grows without a lock; blocks live as long as the program. */
#ifndef EC_RUNTIME_MEMORY_STATE_BLOCK_H
#define EC_RUNTIME_MEMORY_STATE_BLOCK_H

#include <stdatomic.h>

#include "core/arena.h"

/* The initial contents of a part of a block, from the file. */
typedef struct ec_state_initial {
  struct ec_state_initial *next;
  size_t offset; /* in the block */
  const uint8_t *bytes;
  size_t size;
} ec_state_initial;

/* One block for each planned memory id and size. */
typedef struct ec_state_block {
  struct ec_state_block *next;
  uint32_t id;
  size_t size;
  uint8_t *bytes;
  ec_state_initial *initials; /* in the order of copying */
  ec_arena arena;             /* of initials */
} ec_state_block;

typedef struct ec_state_blocks {
  _Atomic(ec_state_block *) first;
} ec_state_blocks;

ec_status ec_state_block_new(uint32_t id, size_t size, ec_state_block **out, ec_error *err);
void ec_state_block_free(ec_state_block *block); /* NULL is allowed */

/* Resets a block to its initial contents. */
void ec_state_block_reset(const ec_state_block *block);

/* Returns NULL if no block has this id and size. */
const ec_state_block *ec_state_blocks_find(ec_state_blocks *blocks, uint32_t id, size_t size);

/* Adds a block and returns it. If another thread has added one with its id and size, frees it and
 * returns the other. */
const ec_state_block *ec_state_blocks_add(ec_state_blocks *blocks, ec_state_block *block);

void ec_state_blocks_deinit(ec_state_blocks *blocks);

#endif
