/* Native structs of a method: loading fills them from the file, placement sets their memory,
 * execution runs over them. All of them live in the method's arena. */
#ifndef EC_RUNTIME_NATIVE_H
#define EC_RUNTIME_NATIVE_H

#include "core/arena.h"
#include "core/lock.h"
#include "core/small.h"
#include "core/threads.h"
#include "kernels/call.h"
#include "kernels/pages.h"
#include "kernels/pointwise/joined.h"
#include "runtime/load/decode.h"
#include "runtime/method_types.h"
#include "runtime/plan_types.h"
#include "runtime/program.h"
#include "runtime/memory/state_block.h"
#include "trace/trace.h"

/* Calls of the program inside a payload that a backend took when it was loaded. */
typedef struct ec_nested_delegation {
  const char *backend; /* NULL: none */
  size_t calls;
} ec_nested_delegation;

typedef struct ec_delegate {
  const ec_backend *backend;
  void *handle; /* valid if `ready` */
  bool ready;
  ec_backend_init init;
  ec_nested_delegation delegated;
  const struct ec_instr *settled; /* whose execute succeeded last, without a trace; or NULL */
  uint64_t elements;              /* of its tensors */
} ec_delegate;

typedef struct ec_instr {
  uint8_t kind;       /* an ec_instr_kind */
  uint32_t number;    /* in its chain, for messages */
  size_t count;       /* of args */
  ec_value **args;    /* kernel, delegate: arguments; move: from, to; jump, free: one value */
  const ec_op *op;    /* KernelCall */
  ec_value **reads;   /* KernelCall: tensors that must have data, and lists of them */
  ec_value **writes;  /* KernelCall: tensors that are written, and lists of them */
  size_t read_count, write_count;
  ec_delegate *delegate;
  ec_backend_arg *views; /* DelegateCall: args as the backend sees them */
  bool *repeated;        /* DelegateCall: args that share one tensor and cannot be resized */
  size_t outputs_from;   /* DelegateCall: index of the first output in args, a heuristic */
  bool aliases; /* MoveCall of a tensor without memory, which is pointed to the source's data */
  size_t destination; /* JumpFalseCall: number of the next instruction; >= count ends the chain */
} ec_instr;

/* A run of kernel calls that a backend took at load. */
typedef struct ec_delegated_run {
  ec_delegate delegate;
  ec_instr call;
  size_t first, end; /* instructions */
  size_t calls;      /* among them, without constants */
} ec_delegated_run;

/* Calls that no backend took. */
typedef struct ec_undelegated {
  const char *op, *reason;
  size_t calls;
} ec_undelegated;

typedef struct ec_chain {
  ec_instr *instrs; /* in the method's instrs */
  size_t count;
} ec_chain;

/* The data of a tensor between calls, and its memory in the file's plan. */
typedef struct ec_placement {
  void *data;
  size_t capacity;
  uint8_t flags;
  bool defined;      /* has a value before, or from, the instructions loaded so far */
  bool named;        /* an attribute: writes are visible there */
  bool staged;       /* an output allocated in each call */
  bool folded;       /* the output of a folded call: constant after the load */
  bool rebindable;   /* a call may redirect it; reset after each call */
  bool kept;         /* has an initial value, or a delegate reads it */
  uint32_t arena;    /* 1-based planned arena; 0: none */
  uint64_t offset;   /* in the arena */
  size_t nbytes;     /* upper bound */
  int64_t *sizes;    /* of a dynamic tensor: the file's upper bounds */
  ec_value *turned;  /* of a folded transposition: its operand as products read it; or NULL */
} ec_placement;

typedef struct ec_attribute {
  const char *name;
  ec_tensor *tensor;
} ec_attribute;

/* The initial value of a state tensor. */
typedef struct ec_initial {
  const ec_placement *placement;
  const uint8_t *bytes; /* from the file; NULL: zeros */
} ec_initial;

/* A part of memory. */
typedef struct ec_span {
  uint8_t *data;
  size_t size;
} ec_span;

typedef enum ec_binding {
  EC_UNBOUND_INPUT,
  EC_BOUND_IN_PLACE, /* the caller's array is the tensor's memory */
  EC_BOUND_COPY,     /* copied at execution */
  EC_BOUND_VALUE     /* a number, string or None equal to the traced value */
} ec_binding;

typedef struct ec_input_slot {
  ec_value *value;
  bool in_place;     /* a caller's array with the right layout may be used in place */
  bool mutated;      /* in the caller's memory, and written by an instruction */
  uint8_t binding;   /* an ec_binding */
  ec_array array;    /* of the current call */
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK]; /* the targets of pointers in `array` */
  void *staging;     /* heap copy for inputs without planned memory */
  size_t staging_size;
} ec_input_slot;

typedef struct ec_output_slot {
  ec_value *value;
  bool direct;       /* the last writer may write to the caller's memory */
  bool needs_staging; /* has no memory, and no instruction redirects it to any */
  bool may_be_skipped; /* no value but what instructions write, which jumps may skip */
  void *bound;       /* caller's memory in the current call */
  void *staging;
  size_t staging_size;
} ec_output_slot;

struct ec_method {
  ec_arena arena; /* native structs */
  ec_arena scratch;
  const ec_program *program;
  const char *name;
  ec_method_options options;
  ec_random random;
  ec_threads *threads; /* for loops and delegates; NULL: one */
  int depth; /* of nested programs */
  bool uses_kv_cache; /* by itself, or a program inside a payload */
  ec_trace *trace; /* NULL: none; owned by the thread that holds the lock */
  const ec_backend_node *nodes; /* the trace's events, by instruction; NULL: instructions */
  size_t node_count;
  ec_lock lock;
  ec_budget *budget; /* of the running call */
  uint64_t elements; /* of the tensors of the running instruction */
  uint8_t **planned; /* arenas, by index from 1 */
  size_t *planned_sizes;
  const ec_state_block **shared_blocks; /* the owner of each arena; NULL: the method */
  size_t planned_count;
  struct ec_copies *copies; /* of constants at unaligned addresses; NULL: none yet */
  ec_value *values;
  ec_value *first_values; /* as loaded; NULL if no instruction changes a slot */
  size_t value_count;
  ec_tensor *tensors;
  ec_placement *placements; /* parallel to tensors: same index */
  size_t tensor_count;
  ec_tensor **rebindable; /* tensors with a rebindable placement */
  size_t rebindable_count;
  ec_input_slot *inputs;
  ec_output_slot *outputs;
  size_t input_count, output_count;
  const ec_op **ops; /* by index in the file, released at the end; NULL: missing */
  size_t op_count;
  ec_delegate *delegates;
  size_t delegate_count;
  ec_delegated_run *delegated;
  size_t delegated_count;
  ec_undelegated *undelegated; /* NULL: none */
  size_t undelegated_count;
  ec_instr *instrs; /* of all chains, in order */
  size_t instr_count;
  ec_chain *chains;
  size_t chain_count;
  ec_plan plan;
  ec_attribute *attributes;
  size_t attribute_count;
  ec_initial *initials;
  size_t initial_count;
  ec_span *state; /* memory that keeps values between calls: disjoint, by address */
  size_t state_count;
  ec_span merged; /* memory of copies of the same bytes; EC_SLACK bytes after it can be read */
  size_t folded_bytes; /* of constants that were computed at load */
  ec_kept_memory kept;
  ec_pages pages; /* of the program's files, which look-ups read */
  ec_arena records; /* steps of recorded calls */
  ec_record_memory recorded;
  ec_joined *joined; /* the calls that run block by block; NULL: none */
  bool uses_shared_state, has_jumps;
  bool *written; /* tensors that the running call wrote, by index; NULL: no jumps */
};

static inline bool ec_is_tensor_list(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR_LIST || v->kind == EC_KIND_OPTIONAL_TENSOR_LIST;
}

/* True for tensors that have planned memory in common. */
static inline bool ec_placements_overlap(const ec_placement *a, const ec_placement *b) {
  return a->arena && a->arena == b->arena && a->nbytes && b->nbytes &&
         a->offset < b->offset + b->nbytes && b->offset < a->offset + a->nbytes;
}

/* Returns the trace of the method's calls; NULL: none. */
static inline ec_trace *ec_trace_of(const ec_method *m) { return EC_IS_SMALL ? NULL : m->trace; }

static inline ec_placement *ec_placement_of(const ec_method *m, const ec_tensor *t) {
  return &m->placements[t - m->tensors];
}

#endif
