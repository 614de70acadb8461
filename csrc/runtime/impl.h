/* The inside of programs and methods, shared by the files of runtime/ only. */
#ifndef EC_RUNTIME_IMPL_H
#define EC_RUNTIME_IMPL_H

#include <stdatomic.h>

#include "backend/registry.h"
#include "core/arena.h"
#include "core/lock.h"
#include "core/threads.h"
#include "format/named_data.h"
#include "kernels/call.h"
#include "runtime/method.h"
#include "runtime/program.h"
#include "trace/trace.h"

/* What the file says of the first contents of a piece of state. */
typedef struct ec_state_initial {
  struct ec_state_initial *next;
  size_t offset; /* in the block */
  const uint8_t *bytes;
  size_t size;
} ec_state_initial;

/* Planned memory with state that methods of one program share: one block for each id and size that
 * they plan. */
typedef struct ec_state_block {
  struct ec_state_block *next;
  uint32_t id;
  size_t size;
  uint8_t *bytes;
  ec_state_initial *initials; /* in the order in which they are copied */
  ec_arena arena;             /* of initials */
} ec_state_block;

/* Memory ids of a method that hold state alone. */
typedef struct ec_state_ids {
  bool has[EC_MAX_ARENAS];
} ec_state_ids;

struct ec_program {
  ec_arena arena; /* all below that is not a source */
  ec_source file;
  ec_source *data;
  size_t data_count;
  ec_pte pte;
  ec_named_map named;
  ec_fb_vec plans;
  const char **names;
  ec_program_options options;
  _Atomic(ec_state_block *) state; /* blocks are added, and live as long as the program */
  ec_lock state_lock;              /* held while a method that uses any of them runs */
  const ec_program *outer; /* of a program inside a payload: whose data it may use, too */
};

typedef enum ec_instr_kind {
#define EC_INSTR(name, handler) EC_INSTR_##name,
#include "runtime/instr.def"
#undef EC_INSTR
} ec_instr_kind;

typedef struct ec_delegate {
  const ec_backend *backend;
  void *handle; /* valid where `ready` */
  bool ready;
  ec_backend_init init;
} ec_delegate;

typedef struct ec_instr {
  uint8_t kind;       /* an ec_instr_kind */
  uint32_t number;    /* in its chain, for messages */
  size_t count;       /* of args */
  ec_value **args;    /* kernel, delegate: arguments; move: from, to; jump, free: one value */
  const ec_op *op;    /* KernelCall */
  ec_delegate *delegate;
  ec_backend_arg *views; /* DelegateCall: args as the backend sees them */
  bool *repeated;        /* DelegateCall: args that stand for one tensor, whose shape must stay */
  size_t outputs_from;   /* DelegateCall: args that are its outputs, as far as can be told */
  bool aliases; /* MoveCall of a tensor without memory: it is pointed at the data of the source */
  size_t destination; /* JumpFalseCall: number of the next instruction; >= count ends the chain */
  ec_value **reads;   /* KernelCall: tensors that must have data, and lists of them */
  ec_value **writes;  /* KernelCall: tensors that are written, and lists of them */
  size_t read_count, write_count;
} ec_instr;

typedef struct ec_chain {
  ec_instr *instrs;
  size_t count;
} ec_chain;

/* Where a tensor's data is when no call has moved it, and what the file says of its memory. */
typedef struct ec_home {
  void *data;
  size_t capacity;
  uint8_t flags;
  bool touched;      /* has a value before, or from, the instructions that are loaded */
  bool named;        /* is an attribute: what is written shows there */
  bool staged;       /* an output that gets memory in each call */
  bool moves;        /* a call may point it elsewhere: put back after each call */
  uint32_t arena;    /* 1-based planned arena; 0: none */
  uint64_t offset;   /* in the arena */
  size_t nbytes;     /* upper bound */
  int64_t *sizes;    /* of a dynamic tensor: the file's, upper bounds */
} ec_home;

typedef struct ec_attribute {
  const char *name;
  ec_tensor *tensor;
} ec_attribute;

/* State in memory of the method's own, which is set at load and at reset. */
typedef struct ec_initial {
  void *at;
  const uint8_t *bytes; /* from the file; NULL: zeros */
  size_t size;
} ec_initial;

typedef enum ec_binding {
  EC_UNBOUND_INPUT,
  EC_BOUND_IN_PLACE, /* the caller's array is the tensor's memory */
  EC_BOUND_COPY,     /* copied when executing */
  EC_BOUND_VALUE     /* a number, string or None: equal to what was traced */
} ec_binding;

typedef struct ec_input_slot {
  ec_value *value;
  bool in_place;     /* plan: a caller's array of the right layout may be used as it is */
  bool mutated;      /* plan: its memory is the caller's, and some instruction writes to it */
  uint8_t binding;   /* an ec_binding */
  ec_array array;    /* of the present call */
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK]; /* what `array` points to */
  void *staging;     /* heap copy for inputs without planned memory */
  size_t staging_size;
} ec_input_slot;

typedef struct ec_output_slot {
  ec_value *value;
  bool direct;       /* plan: the last writer may write to the caller's memory */
  bool stage;        /* has no memory of its own and nobody points it somewhere */
  void *bound;       /* caller's memory of the present call */
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
  ec_trace *trace; /* NULL: none; of the caller who has it locked */
  ec_lock lock;
  ec_budget *budget; /* of the call that runs */
  uint64_t touched;  /* elements of tensors of the instruction that runs */
  uint8_t **planned; /* arenas, by index from 1 */
  size_t *planned_sizes;
  const ec_state_block **shared; /* whose the arena is; NULL: the method's own */
  size_t planned_count;
  struct ec_copies *copies; /* of constants at odd addresses; NULL: none yet */
  ec_value *values;
  ec_value *first_values; /* as loaded; NULL where no instruction changes a slot */
  size_t value_count;
  ec_tensor *tensors;
  ec_home *homes; /* parallel to tensors: same row */
  size_t tensor_count;
  ec_tensor **movers; /* tensors whose home says `moves` */
  size_t mover_count;
  ec_input_slot *inputs;
  ec_output_slot *outputs;
  size_t input_count, output_count;
  const ec_op **ops; /* by index in the file, to be released; NULL: missing */
  size_t op_count;
  ec_delegate *delegates;
  size_t delegate_count;
  ec_chain *chains;
  size_t chain_count;
  ec_attribute *attributes;
  size_t attribute_count;
  ec_initial *initials;
  size_t initial_count;
  bool uses_shared, has_jumps;
};

/* load_code.c: takes the operators that there are; ec_load_chains fails where one is missing. */
ec_status ec_load_operators(ec_method *m, ec_fb_table plan, ec_error *err);

/* load.c: what a method is made of, in this order. */
ec_status ec_load_memory(ec_method *m, ec_fb_table plan, ec_error *err);
ec_status ec_load_values(ec_method *m, ec_fb_table plan, ec_error *err);
ec_status ec_load_io(ec_method *m, ec_fb_table plan, ec_error *err);
ec_status ec_load_delegates(ec_method *m, ec_fb_table plan, ec_error *err);
ec_status ec_load_chains(ec_method *m, ec_fb_table plan, ec_error *err);

/* tensor_load.c: one Tensor of the file. `home` says where its data is. */
ec_status ec_load_tensor(ec_method *m, ec_fb_table table, ec_tensor *t, ec_home *home,
                         ec_error *err);
/* The same without memory, for descriptions. */
ec_status ec_read_tensor(ec_fb_table table, ec_tensor *t, ec_error *err);
/* Name of a tensor; NULL where it has none. */
const char *ec_tensor_fqn(ec_fb_table table);

/* Where a value of the file has its place in planned memory; NULL where it is no tensor, or has
 * none. */
ec_fb_table ec_allocation(ec_fb_table value);
/* The id of that memory; 0: none. */
uint32_t ec_planned_id(ec_fb_table value);

/* describe.c: a value of the file, without its memory or a list's items. */
ec_status ec_describe_value(ec_fb_table value, ec_value_info *out, ec_error *err);

/* tensor_load.c: whether `nbytes` at `offset` lie in planned memory `id`, one of `count` (entry 0
 * is reserved) whose sizes are given. */
ec_status ec_check_place(uint32_t id, uint64_t offset, size_t nbytes, const size_t *sizes,
                         size_t count, ec_error *err);
uint64_t ec_planned_offset(ec_fb_table alloc);
/* The bytes that the file (or a data file) has for tensor `t`: a constant, or the first value of
 * one that has a place in planned memory; {NULL, 0} where there are none. */
ec_status ec_tensor_bytes(const ec_program *program, ec_fb_table table, const ec_tensor *t,
                          ec_bytes *out, ec_error *err);

/* Takes the work of reading bytes of the file that others may tell to be read, too. */
static inline ec_status ec_load_again(size_t bytes, ec_error *err) {
  enum { BYTES = 16 }; /* in a step */
  return ec_budget_work(ec_budget_now(), (uint64_t)bytes * (EC_STEP / BYTES) + EC_STEP, err);
}

/* load.c: compile specs of a delegate, in an arena. */
ec_status ec_load_specs(ec_arena *arena, ec_fb_table delegate, const ec_backend_spec **out,
                        size_t *count, ec_error *err);

/* Kind of a value of the file. */
ec_status ec_read_kind(ec_fb_table value, ec_kind *kind, ec_error *err);

enum { EC_MAX_OP_NAME = 256 };

/* load_code.c: the joined name ("aten::add.out") of a plan's operator, into `name`; NULL where the
 * index is out of range, the row has no name or it is too long. */
const char *ec_plan_op_name(ec_fb_table plan, int32_t index, char *name, size_t size);

/* state.c: memory of a plan, from id 2, of which every tensor is state: not an input or output, and
 * no kernel's `out` (activations planned there must stay the method's own). */
ec_status ec_state_find(ec_fb_table plan, ec_state_ids *out, ec_error *err);
/* Gives `m->shared` the program's blocks for these ids and the sizes that the method plans. A block
 * is made, with its first contents, when the first method asks for it. */
ec_status ec_state_blocks(ec_method *m, const ec_state_ids *ids, ec_error *err);
/* Puts a block back to its first contents. */
void ec_state_reset(const ec_state_block *block);
void ec_state_free(ec_program *program);

/* program.c: named data of a program, then of the ones that it is inside of; NULL where none has
 * the key. */
const ec_named_data *ec_program_data(const ec_program *program, const char *key);

/* options.c: copies the options of the method's backends to its arena; InvalidArgument where one is
 * for a backend that no delegate has. */
ec_status ec_load_options(ec_method *m, ec_fb_vec delegates, ec_error *err);
/* Gives a delegate those of its backend; NotSupported where that is from before there were any. */
ec_status ec_delegate_options(const ec_method *m, ec_delegate *d, ec_error *err);

/* plan.c: which inputs can be used in place and which outputs written directly. */
ec_status ec_plan(ec_method *m, ec_error *err);

/* host.c: the table that backends get, and one call's context. */
struct ec_host_call {
  ec_error *err;
  ec_arena *scratch;
  const ec_program *program; /* NULL: of no program */
  ec_threads *threads;
  ec_trace *trace;
  int depth;
  const ec_instr *instr; /* DelegateCall that is executed; NULL: none */
};
extern const ec_host ec_host_table;

/* A call from inside a method; NULL: from outside of any. */
ec_host_call ec_host_call_of(const ec_method *m, ec_arena *scratch, ec_error *err);

/* exec.c: an argument as a backend sees it. */
void ec_view_arg(ec_value *value, ec_backend_arg *view);

/* method.c: loads with a nesting depth. */
ec_status ec_method_load_nested(const ec_program *program, const char *name,
                                const ec_method_options *options, int depth, ec_method **out,
                                ec_error *err);

static inline ec_home *ec_home_of(const ec_method *m, const ec_tensor *t) {
  return &m->homes[t - m->tensors];
}

/* exec.c: puts every tensor that a call may have moved back to its home, and slots to their first
 * values. */
void ec_restore_homes(ec_method *m);

#endif
