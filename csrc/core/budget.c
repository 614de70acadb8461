/* The budget of a thread: remaining work and bytes, and the interrupt check. */
#include "core/budget.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Thread_local ec_budget *present;

/* ---- the thread's budget ------------------------------------------------------------------ */

ec_budget *ec_budget_now(void) { return present; }

void ec_budget_enter(ec_budget *budget) {
  budget->outer = present;
  present = budget;
}

void ec_budget_leave(ec_budget *budget) { present = budget->outer; }

ec_budget *ec_budget_suspend(void) {
  ec_budget *budget = present;
  present = NULL;
  return budget;
}

void ec_budget_resume(ec_budget *budget) { present = budget; }

/* ---- bytes ------------------------------------------------------------------------------- */

bool ec_budget_charge(size_t bytes) {
  ec_budget *b = present;
  if (!b) return true;
  b->refused |= bytes > b->bytes;
  if (bytes > b->bytes) return false;
  b->bytes -= bytes;
  return true;
}

void ec_budget_refund(size_t bytes) {
  ec_budget *b = present;
  if (b) b->bytes = bytes < b->max_bytes - b->bytes ? b->bytes + bytes : b->max_bytes;
}

bool ec_budget_grow(size_t bytes) {
  ec_budget *b = present;
  if (b && bytes > b->growth) return false;
  if (b) b->growth -= bytes;
  return true;
}

ec_status ec_budget_explain(const ec_budget *budget, ec_status status, ec_error *err) {
  if (status != EC_MEMORY_ALLOCATION_FAILED && status != EC_DELEGATE_ALLOCATION_FAILED)
    return status;
  if (!budget->work) {
    ec_error_append(err, " (after %" PRIu64 " steps)", budget->max_steps);
    if (err) err->hint = EC_HINT_MAX_STEPS;
  } else if (budget->refused) {
    ec_error_append(err, " (%" PRIu64 " bytes may be allocated)", budget->max_bytes);
    if (err) err->hint = EC_HINT_MAX_BYTES;
  }
  return status;
}

/* Returns the limit in a cgroup file, or UINT64_MAX if there is none. */
static uint64_t read_limit(const char *path) {
  uint64_t limit = UINT64_MAX;
  FILE *file = fopen(path, "re");
  if (!file) return limit;
  if (fscanf(file, "%" SCNu64, &limit) != 1) limit = UINT64_MAX;
  fclose(file);
  return limit;
}

uint64_t ec_machine_bytes(void) {
  static atomic_uint_fast64_t known;
  uint64_t bytes = atomic_load(&known);
  if (bytes) return bytes;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max", /* of a container */
                                       "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const uint64_t limit = read_limit(limits[i]);
    if (limit && limit < bytes) bytes = limit;
  }
  atomic_store(&known, bytes);
  return bytes;
}

/* ---- work -------------------------------------------------------------------------------- */

static uint64_t units_of(uint64_t steps) {
  return steps < UINT64_MAX / EC_STEP ? steps * EC_STEP : UINT64_MAX;
}

static void set_pause(ec_budget *b) {
  b->pause = b->work > EC_BUDGET_PACE ? b->work - EC_BUDGET_PACE : 0;
}

void ec_budget_init(ec_budget *budget, uint64_t max_steps, uint64_t max_bytes,
                    const ec_interrupt *interrupt) {
  *budget = (ec_budget){.work = max_steps ? units_of(max_steps) : UINT64_MAX,
                        .bytes = max_bytes,
                        .max_steps = max_steps,
                        .max_bytes = max_bytes,
                        .growth = UINT64_MAX,
                        .instructions = UINT64_MAX};
  if (interrupt) budget->interrupt = *interrupt;
  set_pause(budget);
}

/* Reads the coarse clock: a resolution of milliseconds is enough and costs less. */
static uint64_t budget_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

ec_status ec_budget_pause(ec_budget *b, ec_error *err) {
  enum { MILLISECONDS = 100 };
  if (b->ended != EC_OK) return ec_fail(err, b->ended, "interrupted");
  if (!b->work)
    return ec_fail_hint(err, EC_OUT_OF_RESOURCES, EC_HINT_MAX_STEPS, "more than %" PRIu64 " steps",
                        b->max_steps);
  set_pause(b);
  const uint64_t present_time = budget_clock();
  if (b->asked && present_time - b->asked >= MILLISECONDS && b->interrupt.check)
    b->ended = b->interrupt.check(b->interrupt.user, err);
  if (!b->asked || present_time - b->asked >= MILLISECONDS) b->asked = present_time;
  return b->ended;
}
