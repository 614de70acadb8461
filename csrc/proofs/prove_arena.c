/* core/arena.c, by induction: a request of any size and alignment, of an arena in any state with an
 * invariant, keeps the invariant. So no sequence of requests overlaps or leaves its block. */
#include "core/arena.c"
#include "proofs/prove.h"

/* Blocks, each an object. Their bytes are counted, not modelled: only headers are written. */
static ec_arena_block old, oldest, fresh;
static size_t requested; /* bytes of `fresh`, with its header; 0: not asked for */

void *ec_alloc(size_t size) {
  bool fails;
  if (fails || size > (size_t)1 << 40) return NULL; /* an offset of the model has 56 bits */
  prove(requested == 0, "a request needs one block at most");
  requested = size;
  return &fresh;
}

static unsigned freed;

void ec_free(void *block) {
  const unsigned bit = block == &old ? 1 : block == &oldest ? 2 : block == &fresh ? 4 : 0;
  prove(bit && !(freed & bit), "a block is freed once");
  freed |= bit;
}

/* The invariant: memory in use is below `used` in the newest block, or in another block. */
static bool is_valid(const ec_arena *arena) {
  return arena->blocks ? arena->used <= arena->blocks->size : arena->used == 0;
}

/* An arena in any such state, with no, one or two blocks. */
static ec_arena any_arena(void) {
  ec_arena arena;
  bool is_empty, has_two;
  size_t size, other_size;
  old.size = size;
  oldest.size = other_size;
  old.next = has_two ? &oldest : NULL;
  oldest.next = NULL;
  assume(old.size <= (size_t)1 << 40 && oldest.size <= (size_t)1 << 40);
  arena.blocks = is_empty ? NULL : &old;
  arena.total = is_empty ? 0 : old.size + HEADER + (has_two ? oldest.size + HEADER : 0);
  assume(is_valid(&arena));
  return arena;
}

static void prove_request(void) {
  size_t size;
  unsigned shift;
  assume(shift <= 6);
  const size_t align = (size_t)1 << shift;
  ec_arena arena = any_arena();
  const ec_arena before = arena;
  const char *memory = ec_arena_alloc(&arena, size, align);
  prove(is_valid(&arena), "the invariant holds again");
  if (!memory) {
    prove(arena.used == before.used && arena.blocks == before.blocks, "a failure changes nothing");
    return;
  }
  const size_t at = (size_t)__CPROVER_POINTER_OFFSET(memory) - HEADER;
  prove(__CPROVER_same_object(memory, arena.blocks), "the memory is in the newest block");
  prove((at & (align - 1)) == 0, "it is aligned");
  prove(at <= arena.used && size == arena.used - at, "it ends where the next one may begin");
  if (arena.blocks == before.blocks) {
    prove(at >= before.used, "it is after all that are in use");
    prove(arena.total == before.total, "the arena has not grown");
  } else {
    prove(arena.blocks == &fresh && fresh.next == before.blocks, "the new block is the newest");
    prove(fresh.size == requested - HEADER && size <= fresh.size, "it is as large as asked for");
    prove(arena.total == before.total + requested, "the arena has grown by it");
  }
}

static void prove_ends(void) {
  ec_arena arena = any_arena();
  const ec_arena before = arena;
  ec_arena_reset(&arena);
  prove(arena.blocks == before.blocks && arena.used == 0, "a reset keeps the newest block");
  prove(!arena.blocks || (!old.next && arena.total == old.size + HEADER), "and no other one");
  const bool had_two = freed & 2;
  ec_arena_deinit(&arena);
  prove(!arena.blocks && !arena.total, "the arena is empty");
  prove(freed == (before.blocks ? 1u : 0u) + (had_two ? 2u : 0u), "each block is freed");
}

int main(void) { EC_PROVE(); }
