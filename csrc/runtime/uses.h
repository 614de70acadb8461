/* Uses of each tensor of a method by instructions, inputs and outputs. */
#ifndef EC_RUNTIME_USES_H
#define EC_RUNTIME_USES_H

#include "runtime/native.h"

/* The uses of one tensor, by instructions in the order of the file. */
typedef struct ec_use {
  bool used;                 /* is an argument of some instruction */
  bool first_overwrites;     /* ... and the first of them writes all of it */
  bool first_by_delegate;    /* ... or the first is a delegate's: nobody knows */
  bool written;              /* some instruction writes to it, or to a view or alias of it */
  bool is_view;              /* out of an et_view: points into another tensor */
  bool freed;                /* some instruction frees it */
  uint32_t inputs, outputs;  /* how often it is one */
  size_t first, last;        /* instructions, counted over all chains */
  size_t parent;             /* union-find: tensors that a view or a move connects */
} ec_use;

typedef struct ec_uses {
  ec_method *m;
  ec_use *rows; /* by index in m->tensors; in the method's scratch memory */
} ec_uses;

/* The index of a tensor's row. */
static inline size_t ec_use_index(const ec_uses *uses, const ec_value *v) {
  return (size_t)(v->as.tensor - uses->m->tensors);
}

/* Collects them from a method whose instructions are loaded. */
ec_status ec_collect_uses(ec_method *m, ec_uses *uses, ec_error *err);

#endif
