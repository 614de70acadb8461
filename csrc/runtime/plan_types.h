/* The plan of a method: what executes at each of its instructions.
 *
 * It begins with one step for each instruction, the instruction itself. Passes (passes/passes.def)
 * put steps on top: one that computes several instructions, or one faster way of executing an
 * instruction. A step that depends on the values of a call declines a call that it cannot compute,
 * and the step below it, its fallback, executes. A traced call executes the instructions. */
#ifndef EC_RUNTIME_PLAN_TYPES_H
#define EC_RUNTIME_PLAN_TYPES_H

#include "core/error.h"
#include "kernels/linalg/kept.h"
#include "kernels/record.h"
#include "runtime/method_types.h"

typedef enum ec_step_kind {
#define EC_INSTR(name, handler) EC_STEP_##name,
#include "runtime/instr.def"
#undef EC_INSTR
#define EC_STEP_KIND(name, handler) EC_STEP_##name,
#include "runtime/steps.def"
#undef EC_STEP_KIND
  EC_STEP_KINDS
} ec_step_kind;

typedef enum ec_pass_id {
  EC_NO_PASS,
#define EC_PASS(name, guards, before, after, purpose) EC_PASS_##name,
#include "runtime/passes/passes.def"
#undef EC_PASS
  EC_PASS_END
} ec_pass_id;

struct ec_instr;
struct ec_attention_parts;

typedef struct ec_step {
  uint8_t kind;          /* an ec_step_kind */
  uint8_t pass;          /* the ec_pass_id that made it; EC_NO_PASS: an instruction */
  uint8_t readers;       /* Joined: how many calls later the result is read last, if nothing else
                            reads it; 0: others may */
  bool zero_rows;        /* ec_call.zero_rows */
  uint32_t first, count; /* instructions, over all chains, that it computes; Joined: at most */
  const struct ec_instr *run; /* executes: an instruction, or a call that a pass made; NULL: none */
  struct ec_step *fallback; /* executes if this one declines a call; NULL: it never does */
  ec_kept *kept;         /* KernelCall: packed weights of a product; NULL: no constant argument */
  ec_record *record;     /* KernelCall: filled with its loops; Recorded: these; NULL: none */
  const struct ec_attention_parts *parts; /* Attention */
} ec_step;

/* Executes a step. `next` is the instruction after it: a jump changes it, and a step that declines
 * sets it to its own first one. */
typedef ec_status (*ec_handler)(ec_method *m, const ec_step *step, size_t *next, ec_error *err);

typedef struct ec_plan {
  ec_step *instrs;       /* the instructions, of all chains, as steps */
  ec_step **steps;       /* by instruction: what executes there */
  uint8_t *passes;       /* by instruction: the pass whose step computes it; EC_NO_PASS: none */
  size_t changed[EC_PASS_END]; /* instructions that a pass computes, or executes in another way */
} ec_plan;

#endif
