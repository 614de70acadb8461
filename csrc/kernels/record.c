/* Records as lists of steps in the method's arena. */
#include "kernels/record.h"

#include <string.h>

#include "core/alloc.h"
#include "core/budget.h"

void ec_record_refuse(ec_record *record) {
  record->state = EC_RECORD_REFUSED;
  record->first = record->last = NULL;
}

/* True if the room and the budget of the call allow it: half of the budget stays for the call. */
static bool is_allowed(const ec_record_memory *memory, size_t size) {
  const ec_budget *budget = ec_budget_now();
  return size <= memory->room && (!budget || size <= budget->bytes / 2);
}

void *ec_record_alloc(ec_record_memory *memory, size_t size) {
  if (!is_allowed(memory, size)) return NULL;
  void *block = ec_arena_alloc(memory->arena, size, EC_ALIGN);
  if (!block) return NULL;
  memory->room -= size;
  return memset(block, 0, size);
}

void *ec_record_add(ec_record *record, ec_recorded_fn run, size_t size, int64_t written) {
  if (record->state != EC_RECORD_EMPTY) return NULL;
  ec_recorded_loop *step = ec_record_alloc(record->memory, size);
  if (!step) {
    ec_record_refuse(record);
    return NULL;
  }
  step->run = run;
  if (record->last) record->last->next = step;
  else record->first = step;
  record->last = step;
  record->written += (uint64_t)written;
  return step;
}
