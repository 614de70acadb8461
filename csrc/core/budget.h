/* The budget of one load or one call, nested programs included, and its interruption.
 *
 * It is the budget of a thread while it loads or runs a method: every allocation of that thread is
 * taken from its bytes (core/alloc.c), and what walks through a file or runs instructions takes
 * work from it, a unit for each element or byte that is touched. Whoever asked for the load or call
 * is asked several times a second whether it is to go on. */
#ifndef EC_CORE_BUDGET_H
#define EC_CORE_BUDGET_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  EC_STEP = 4096,             /* units of work in a step, in which users count */
  EC_BUDGET_PACE = 16 * EC_STEP /* units between two looks at the clock */
};

/* Asked now and then: a status other than OK ends the load, the call, or the wait for a lock. */
typedef struct ec_interrupt {
  ec_status (*check)(void *user, ec_error *err);
  void *user;
} ec_interrupt;

typedef struct ec_budget {
  uint64_t work;       /* left */
  uint64_t pause;      /* of `work`: when it is there, the clock is looked at */
  uint64_t bytes;      /* left */
  uint64_t max_steps, max_bytes; /* at the beginning, for sentences */
  uint64_t instructions; /* that may be executed */
  uint64_t asked;      /* when; 0: not yet */
  ec_interrupt interrupt; /* `check` NULL: nobody is asked */
  ec_status ended;     /* by the one who was asked */
  bool refused;        /* an allocation has not found enough bytes */
  struct ec_budget *outer; /* the thread's before */
} ec_budget;

/* Fills in a budget; 0 steps: as many as there are. */
void ec_budget_init(ec_budget *budget, uint64_t max_steps, uint64_t max_bytes,
                    const ec_interrupt *interrupt);

/* Makes it this thread's until the matching leave. */
void ec_budget_enter(ec_budget *budget);
void ec_budget_leave(ec_budget *budget);
/* This thread's; NULL: none. */
ec_budget *ec_budget_now(void);
/* Takes bytes of this thread's; false: there are not as many left. */
bool ec_budget_charge(size_t bytes);
/* Gives bytes back that have been freed; there are never more than at the beginning. */
void ec_budget_give(size_t bytes);

/* Has this thread work without a budget, until the matching resume. */
ec_budget *ec_budget_suspend(void);
void ec_budget_resume(ec_budget *budget);

ec_status ec_budget_pause(ec_budget *budget, ec_error *err);

/* Takes work. Fails with OutOfResources where there is not as much left, and as the interrupt says;
 * NULL allows everything. */
static inline ec_status ec_budget_work(ec_budget *budget, uint64_t units, ec_error *err) {
  if (!budget) return EC_OK;
  budget->work = units < budget->work ? budget->work - units : 0;
  return budget->work > budget->pause ? EC_OK : ec_budget_pause(budget, err);
}

/* Says of an allocation that failed that it was the budget, if so; gives the status. */
ec_status ec_budget_explain(const ec_budget *budget, ec_status status, ec_error *err);

/* Physical memory of the machine, or the limit of this process's cgroup. */
uint64_t ec_machine_bytes(void);

#endif
