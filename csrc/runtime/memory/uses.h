/* Uses of a method's tensors by instructions, inputs and outputs. */
#ifndef EC_RUNTIME_MEMORY_USES_H
#define EC_RUNTIME_MEMORY_USES_H

#include "runtime/native.h"

/* The uses of one tensor by instructions in file order. */
typedef struct ec_use {
  bool used;                 /* an argument of some instruction */
  bool first_overwrites;     /* ... the first of which overwrites all of it */
  bool first_by_delegate;    /* ... the first of which is a delegate's: unknown */
  bool delegate_overwrites;  /* ... whose backend says that it overwrites all of it */
  bool delegate_reads;       /* ... or that it only reads it */
  bool written;              /* written by an instruction, directly or through a view or alias */
  bool is_view;              /* the out of an et_view: points into another tensor */
  bool starts_as_view;       /* ... which is the first instruction that uses it */
  bool freed;                /* freed by some instruction */
  uint32_t inputs, outputs;  /* number of occurrences */
  size_t first, last;        /* instructions, counted over all chains */
  bool is_elided;            /* a view without an instruction: read after its memory is ... */
  size_t filled;             /* ... filled by another tensor: in this instruction; 0: an input */
  size_t parent;             /* union-find: tensors connected by a view or a move */
} ec_use;

typedef struct ec_uses {
  ec_method *m;
  ec_use *rows;  /* by index in m->tensors */
  bool *changes; /* slots of numbers that instructions change, by index in m->values */
  bool has_elided_views; /* rows say which views have no instruction */
} ec_uses;

/* How an instruction uses a tensor. */
typedef enum ec_access {
  EC_READS,
  EC_WRITES_SOME, /* keeps elements that it does not write */
  EC_OVERWRITES,
  EC_BY_DELEGATE  /* unknown */
} ec_access;

/* Calls `visit` for each tensor among the arguments, those in lists included. */
void ec_visit_accesses(const ec_instr *in,
                       void (*visit)(void *user, const ec_value *v, ec_access how), void *user);

/* True if no instruction changes the number, string or list in the slot. */
bool ec_is_fixed(const ec_uses *uses, const ec_value *v);

/* Returns the index of a tensor's row. */
static inline size_t ec_use_index(const ec_uses *uses, const ec_value *v) {
  return (size_t)(v->as.tensor - uses->m->tensors);
}

/* Returns the index of the first tensor of a group: the tensors that views and moves connect. */
size_t ec_use_group(const ec_uses *uses, size_t index);

/* True for state: a tensor with a name, or one that is read before any instruction or input fills
 * its memory, as far as a delegate's use of it is known. */
bool ec_use_is_carried(const ec_uses *uses, size_t index);

/* True if comparing each of `a` tensors with each of `b` takes little time. Hostile files have
 * many. */
bool ec_can_compare(size_t a, size_t b);

/* True if the memory of `b` in the plan is a part of that of `a`. */
bool ec_placement_covers(const ec_placement *a, const ec_placement *b);

/* True if both have exactly one memory in the plan. */
bool ec_placements_equal(const ec_placement *a, const ec_placement *b);

/* Finds views that the exporter elided: it gives them the memory of their bases. Compares all
 * tensors, unless that takes long. */
void ec_find_elided_views(ec_uses *uses);

/* True if tensor `view` has exactly the memory of tensor `base`, is no output, and was last filled
 * by the first instruction of `base`, which overwrites it. After ec_find_elided_views. */
bool ec_is_elided_view(const ec_uses *uses, size_t view, size_t base);

/* True if nothing but a tensor and its elided view, which may be itself, can tell where they are:
 * no other tensor observes their memory, or is used in it from the first use of the one to the last
 * of the other. */
bool ec_is_only_view(const ec_uses *uses, size_t view, size_t base);

/* Counts the instructions that write a tensor of each group, by its first tensor. All arguments of
 * a move count, which shares the memory of its source, and all of a delegate, unless
 * `asks_backends` and its backend has `output_count`. */
void ec_count_writers(const ec_uses *uses, bool asks_backends, uint32_t *writers);

/* True if tensor `other` may be read with what the first instruction that writes tensor `index` has
 * written in its memory, in this call or the next one. */
bool ec_may_observe(const ec_uses *uses, size_t index, size_t other);

/* True if another tensor in a tensor's memory is used, or returned, between or after its first and
 * before its last use: values that one writes may be read through the other. */
bool ec_is_used_beside(const ec_uses *uses, size_t index, size_t other);

/* True if instruction `at` is the first to use tensor `index`, and overwrites all of it. */
bool ec_is_result(const ec_uses *uses, size_t index, size_t at);

/* True if only instructions `first` to `last` use tensor `index`. */
bool ec_is_used_within(const ec_uses *uses, size_t index, size_t first, size_t last);

/* True if only instructions `at` to `last` use tensor `index`, the first of which overwrites it,
 * and nothing else can read the result in its memory. After ec_find_elided_views. */
bool ec_is_private(const ec_uses *uses, size_t index, size_t at, size_t last);

/* Collects the uses in a method with loaded instructions, in memory of an arena. */
ec_status ec_collect_uses(ec_method *m, ec_arena *arena, ec_uses *uses, ec_error *err);

#endif
