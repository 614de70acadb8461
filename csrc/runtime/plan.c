/* The plan: steps on top of instructions. */
#include "runtime/plan.h"

ec_status ec_plan_init(ec_method *m, ec_error *err) {
  ec_plan *p = &m->plan;
  const size_t count = m->instr_count;
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *p->instrs, "the plan", &p->instrs, err));
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *p->steps, "the plan", &p->steps, err));
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *p->passes, "the plan", &p->passes, err));
  for (size_t i = 0; i < count; i++) {
    p->instrs[i] = (ec_step){.kind = m->instrs[i].kind, .first = (uint32_t)i, .count = 1,
                             .run = &m->instrs[i]};
    p->steps[i] = &p->instrs[i];
  }
  return EC_OK;
}

ec_status ec_plan_add(ec_method *m, ec_step step, bool declines, ec_error *err) {
  ec_step *copy;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *copy, "the plan", &copy, err));
  *copy = step;
  copy->fallback = declines ? m->plan.steps[step.first] : NULL;
  m->plan.steps[step.first] = copy;
  return EC_OK;
}

ec_status ec_plan_replace(ec_method *m, ec_step step, bool declines, ec_error *err) {
  EC_TRY(ec_plan_add(m, step, declines, err));
  for (size_t i = step.first; i < (size_t)step.first + step.count; i++)
    if (!ec_plan_is(m, i, EC_PASS_fold)) ec_plan_assign(m, i, (ec_pass_id)step.pass);
  return EC_OK;
}

void ec_plan_assign(ec_method *m, size_t instr, ec_pass_id pass) {
  ec_plan *p = &m->plan;
  if (p->passes[instr]) p->changed[p->passes[instr]]--;
  p->passes[instr] = (uint8_t)pass;
  p->changed[pass]++;
}

bool ec_plan_is(const ec_method *m, size_t instr, ec_pass_id pass) {
  return m->plan.passes[instr] == pass;
}
