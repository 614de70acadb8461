/* The cost of loading rows that a file can refer to repeatedly. */
#ifndef EC_RUNTIME_LOAD_COST_H
#define EC_RUNTIME_LOAD_COST_H

#include "core/budget.h"

/* Charges the thread's budget for reading bytes that several rows may share. */
static inline ec_status ec_charge_reading(size_t bytes, ec_error *err) {
  enum { BYTES = 16 }; /* bytes per step */
  return ec_budget_work(ec_budget_now(), (uint64_t)bytes * (EC_STEP / BYTES) + EC_STEP, err);
}

#endif
