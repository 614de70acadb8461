/* core/budget.h: exhausted work and bytes, interrupt checks, and nested budgets. */
#include "core/budget.h"

#include <time.h>

#include "core/alloc.h"
#include "testing/test.h"

static ec_status count(void *user, ec_error *err) {
  int *asked = user;
  return ++*asked == 2 ? ec_fail(err, EC_END_OF_METHOD, "enough") : EC_OK;
}

static void wait_a_while(void) {
  nanosleep(&(struct timespec){0, 120 * 1000 * 1000}, NULL);
}

void ec_test_budget_work(ec_test *t) {
  ec_budget b;
  ec_error err;
  ec_budget_init(&b, 10, 1000, NULL);
  for (int i = 0; i < 9; i++) EC_CHECK_OK(t, ec_budget_work(&b, EC_STEP, &err), &err);
  EC_CHECK_FAILS(t, ec_budget_work(&b, EC_STEP, &err), &err, EC_OUT_OF_RESOURCES, "10 steps");
  EC_CHECK_FAILS(t, ec_budget_work(&b, 0, &err), &err, EC_OUT_OF_RESOURCES, "steps");
  EC_CHECK(t, err.hint == EC_HINT_MAX_STEPS);
  ec_budget_init(&b, 0, 0, NULL);
  for (int i = 0; i < 100; i++)
    EC_CHECK_OK(t, ec_budget_work(&b, (uint64_t)1 << 50, &err), &err);
  ec_budget_init(&b, UINT64_MAX, 0, NULL);
  EC_CHECK_OK(t, ec_budget_work(&b, (uint64_t)1 << 62, &err), &err);
  EC_CHECK_OK(t, ec_budget_work(NULL, UINT64_MAX, &err), &err);
}

void ec_test_budget_interrupt(ec_test *t) {
  int asked = 0;
  ec_budget b;
  ec_error err;
  ec_budget_init(&b, 0, 0, &(ec_interrupt){count, &asked});
  for (int i = 0; i < 1000; i++) EC_CHECK_OK(t, ec_budget_work(&b, EC_STEP, &err), &err);
  EC_CHECK(t, asked <= 1); /* at most every 100 ms */
  asked = 0;
  wait_a_while();
  EC_CHECK_OK(t, ec_budget_work(&b, EC_BUDGET_PACE, &err), &err);
  EC_CHECK(t, asked == 1);
  wait_a_while();
  EC_CHECK_FAILS(t, ec_budget_work(&b, EC_BUDGET_PACE, &err), &err, EC_END_OF_METHOD, "enough");
  EC_CHECK_FAILS(t, ec_budget_work(&b, EC_BUDGET_PACE, &err), &err, EC_END_OF_METHOD, "inter");
  EC_CHECK(t, asked == 2);
}

void ec_test_budget_bytes(ec_test *t) {
  ec_budget b, inner;
  ec_error err;
  ec_budget_init(&b, 0, 1000, NULL);
  ec_budget_enter(&b);
  void *one = ec_alloc(600), *two = ec_alloc(600), *three = ec_alloc_array(4, 100);
  EC_CHECK(t, one && !two && three && b.refused && b.bytes == 0);
  ec_free(one);
  EC_CHECK(t, b.bytes == 600);
  ec_budget_init(&inner, 0, 100, NULL);
  ec_budget_enter(&inner);
  EC_CHECK(t, ec_budget_now() == &inner && !ec_alloc(101));
  ec_budget *suspended = ec_budget_suspend();
  one = ec_alloc(5000);
  ec_budget_resume(suspended);
  ec_free(one); /* never more than the initial limit */
  EC_CHECK(t, inner.bytes == 100);
  ec_budget_leave(&inner);
  ec_free(three);
  EC_CHECK(t, ec_budget_now() == &b && b.bytes == 1000);
  ec_budget_leave(&b);
  EC_CHECK(t, !ec_budget_now());
  ec_fail(&err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  EC_CHECK_FAILS(t, ec_budget_explain(&b, err.status, &err), &err, EC_MEMORY_ALLOCATION_FAILED,
                 "1000 bytes may be allocated");
  EC_CHECK(t, ec_machine_bytes() >= 1 << 20);
}
