/* Delegation at load: kernel calls as nodes of a graph.
 *
 * A value has up to two forms: plain (its dimensions in their order) and, with four dimensions,
 * channels last, as XNNPACK's convolutions need it; with three, those of a picture of height 1. A
 * form is made when a node reads it, from the other one by a transposition; nodes that can compute
 * either take the one that exists. So there are transpositions only where the layout has to change.
 *
 * A value that is dequantised has the forms of its integers, converted where a node reads it as
 * floats. A node that reads such values and whose result is quantised becomes one of integers when
 * the quantisation is added (integers.c). */
#ifndef ECX_DELEGATE_AT_LOAD_DELEGATION_H
#define ECX_DELEGATE_AT_LOAD_DELEGATION_H

#include "delegate_at_load/draft.h"

typedef enum ecx_form { ECX_FORM_PLAIN, ECX_FORM_LAST, ECX_FORMS } ecx_form;

/* A value of the run in the draft. */
typedef struct ecx_entry {
  uint32_t ids[ECX_FORMS]; /* ECX_NONE: not made yet */
  uint32_t places;         /* where it is: arguments of calls, the run's outputs, bases of views */
  uint32_t position;       /* of an input: among the arguments; ECX_NONE */
  const ec_backend_value *integers; /* what it is dequantised from; or NULL */
  /* Of a dynamic quantisation: the call that writes it, and floats, ECX_NONE: of its parameters */
  uint32_t writer, floats;
  bool is_given; /* an input or a view: no call writes it */
} ecx_entry;

typedef struct ecx_delegation {
  ecx_draft *draft;
  const ec_backend_run *run;
  ecx_entry *entries; /* by number of the value */
  size_t at;          /* the call */
  const ec_backend_value *unreadable; /* a value that this call cannot read here; or NULL */
} ecx_delegation;

typedef struct ecx_operator ecx_operator;

/* Checks a call and, if `delegation` is not NULL, adds its nodes. Returns NULL, or in a few words
 * why the call cannot be delegated. */
typedef const char *ecx_operator_fn(ecx_delegation *delegation, const ecx_operator *row,
                                    const ec_backend_kernel_call *call);

struct ecx_operator {
  const char *op;
  ecx_operator_fn *fn;
  uint8_t kind;       /* an ECX_KIND_ of draft.h, or 0 */
  bool checks_dtypes; /* `fn` does; else all tensors are float32 */
};

#define ECX_DELEGATE(op, fn, kind) ecx_operator_fn ecx_delegate_##fn;
#define ECX_DELEGATE_CODES(op, fn) ecx_operator_fn ecx_delegate_##fn;
#include "delegate_at_load/operators.def"
#undef ECX_DELEGATE
#undef ECX_DELEGATE_CODES

#endif
