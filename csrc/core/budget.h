/* The budget of one load or one call, nested programs included, and its interrupt.
 *
 * The budget belongs to the thread that loads or runs a method. Every allocation of that thread is
 * charged to its bytes (core/alloc.c). Passes over a file and executed instructions are charged to
 * its work, one unit per element or byte touched. The interrupt callback runs several times a
 * second and can end the load or the call. */
#ifndef EC_CORE_BUDGET_H
#define EC_CORE_BUDGET_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  EC_STEP = 4096,             /* units of work in a step, the unit of the user's limit */
  EC_BUDGET_PACE = 16 * EC_STEP /* units between two reads of the clock */
};

/* Called several times a second. A status other than OK ends the load, the call, or the wait for a
 * lock. */
typedef struct ec_interrupt {
  ec_status (*check)(void *user, ec_error *err);
  void *user;
} ec_interrupt;

typedef struct ec_budget {
  uint64_t work;       /* units left */
  uint64_t pause;      /* value of `work` at which the clock is read next */
  uint64_t bytes;      /* bytes left */
  uint64_t max_steps, max_bytes; /* initial limits, for messages */
  uint64_t growth;     /* bytes that tensors without bounds may still grow by; 0: not set yet */
  uint64_t instructions; /* instructions that may still be executed */
  uint64_t asked;      /* time of the last interrupt check; 0: none yet */
  ec_interrupt interrupt; /* `check` NULL: no interrupt */
  ec_status ended;     /* status returned by the interrupt */
  bool refused;        /* true after an allocation exceeded `bytes` */
  struct ec_budget *outer; /* the thread's previous budget */
} ec_budget;

/* Initialises a budget. max_steps 0: unlimited. */
void ec_budget_init(ec_budget *budget, uint64_t max_steps, uint64_t max_bytes,
                    const ec_interrupt *interrupt);

/* Makes `budget` the thread's budget until the matching leave. */
void ec_budget_enter(ec_budget *budget);
void ec_budget_leave(ec_budget *budget);
/* Returns the thread's budget, or NULL. */
ec_budget *ec_budget_now(void);
/* Charges bytes to the thread's budget. Returns false if fewer are left. */
bool ec_budget_charge(size_t bytes);
/* Returns freed bytes to the budget, never beyond its initial limit. */
void ec_budget_refund(size_t bytes);

/* Charges the growth of a tensor without bounds. Returns false if less is left. */
bool ec_budget_grow(size_t bytes);

/* Runs the thread without a budget until the matching resume. */
ec_budget *ec_budget_suspend(void);
void ec_budget_resume(ec_budget *budget);

ec_status ec_budget_pause(ec_budget *budget, ec_error *err);

/* Charges work to the budget (NULL: unlimited). Fails with OutOfResources if less is left, or with
 * the interrupt's status. */
static inline ec_status ec_budget_work(ec_budget *budget, uint64_t units, ec_error *err) {
  if (!budget) return EC_OK;
  budget->work = units < budget->work ? budget->work - units : 0;
  return budget->work > budget->pause ? EC_OK : ec_budget_pause(budget, err);
}

/* Explains a failed allocation that exceeded the budget. Returns the status. */
ec_status ec_budget_explain(const ec_budget *budget, ec_status status, ec_error *err);

/* Returns the physical memory of the machine, or the limit of this process's cgroup. */
uint64_t ec_machine_bytes(void);

#endif
