/* Chains: joined loops of float32 arithmetic, each of which reads the result of the one before.
 *
 * Blocks of a chain go through registers: one pass of vectors computes all of its calls, with the
 * bits of separate loops, without storing what lies between them. */
#ifndef EC_KERNELS_POINTWISE_CHAIN_H
#define EC_KERNELS_POINTWISE_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ec_chain_form {
#define EC_FORM(form, result) EC_CHAIN_##form,
#include "kernels/pointwise/chain.def"
#undef EC_FORM
  EC_CHAIN_FORMS
} ec_chain_form;

/* One call: its operand besides the result before it. */
typedef struct ec_chain_step {
  ec_chain_form form;
  const float *with; /* NULL: `number` */
  float number;
} ec_chain_step;

/* True if this machine has the vectors of ec_chain_run. */
bool ec_chain_is_available(void);

/* Computes `n` elements. `out` may be any of the operands. */
void ec_chain_run(int64_t n, float *out, const float *in, const ec_chain_step *steps, size_t count);

#endif
