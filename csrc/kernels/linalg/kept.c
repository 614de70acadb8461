/* A list of kept sides per instruction: few, so that a search takes less time than packing. */
#include "kernels/linalg/kept.h"

#include "core/alloc.h"
#include "core/budget.h"
#include "core/checked.h"

enum { MAX_SIDES = 64 }; /* of an instruction */

ec_kept *ec_kept_of(const ec_call *c, size_t i) {
  return c->kept && c->kept->constants >> i & 1u ? c->kept : NULL;
}

static bool is_same(const ec_kept_key *a, const ec_kept_key *b) {
  return a->data == b->data && a->pack == b->pack && a->lane == b->lane && a->k == b->k &&
         a->variant == b->variant && a->lanes == b->lanes && a->depth == b->depth &&
         a->block_lanes == b->block_lanes && a->block_depth == b->block_depth &&
         a->width == b->width;
}

const ec_kept_side *ec_kept_find(const ec_kept *kept, const ec_kept_key *key) {
  const ec_kept_side *side = kept->sides;
  while (side && !is_same(&side->key, key)) side = side->next;
  return side;
}

/* True if the room and the budget of the call allow it: half of the budget stays for the call. */
static bool is_allowed(const ec_kept_memory *memory, size_t bytes) {
  const ec_budget *budget = ec_budget_now();
  return bytes <= memory->room && (!budget || bytes <= budget->bytes / 2);
}

const ec_kept_side *ec_kept_add(ec_kept *kept, const ec_kept_key *key, size_t size) {
  ec_kept_memory *memory = kept->memory;
  size_t lanes = ((size_t)key->lanes + key->width - 1) / key->width, bytes;
  if (kept->count >= MAX_SIDES || !ec_mul_size(lanes, key->width * size, &bytes) ||
      !ec_mul_size(bytes, (size_t)key->depth, &bytes) || !is_allowed(memory, bytes))
    return NULL;
  ec_kept_side *side = ec_alloc_zeroed(sizeof *side);
  void *panels = side ? ec_alloc(bytes) : NULL;
  if (!panels) {
    ec_free(side);
    return NULL;
  }
  *side = (ec_kept_side){kept->sides, *key, panels};
  kept->sides = side;
  kept->count++;
  memory->bytes += bytes;
  memory->room -= bytes;
  return side;
}

void ec_kept_packed(const ec_kept *kept, const void *data, size_t count, ec_dtype dtype) {
  kept->memory->packed(kept->memory->user, data, count * ec_dtype_size(dtype));
}

void ec_kept_deinit(ec_kept *kept) {
  while (kept->sides) {
    ec_kept_side *side = kept->sides;
    kept->sides = side->next;
    ec_free(side->panels);
    ec_free(side);
  }
}
