/* The dataflow of a run of kernel calls, as a backend sees it: values instead of memory. */
#ifndef EC_RUNTIME_PASSES_DELEGATE_RUN_H
#define EC_RUNTIME_PASSES_DELEGATE_RUN_H

#include "runtime/passes/pass.h"

/* Analysis of a method with one chain. */
typedef struct ec_run_analysis {
  ec_method *m;
  const ec_uses *uses;
  const size_t *merged; /* ec_pass_context.merged */
  const ec_instr *instrs;
  size_t count;
  bool *wanted;  /* calls that the backend can take, by instruction */
  bool *grouped; /* tensors that a view or a move connects with another, by index */
  bool *carried; /* tensors whose contents outlive a call, by index: state */
  struct ec_run_binding *bindings; /* by tensor */
  const ec_instr **folding; /* the call that computed a constant, by tensor; NULL: none */
  ec_arena work; /* memory of the last run */
  size_t room;   /* comparisons left: hostile files stay cheap */
  size_t refusals; /* runs that were built again */
} ec_run_analysis;

/* A tensor that a call of the run writes. */
typedef struct ec_run_write {
  size_t tensor, instr;
  ec_value *slot;
  ec_backend_value *value;
} ec_run_write;

/* Calls [first, end) without the folded ones. Valid until the next run is built. */
typedef struct ec_delegate_run {
  size_t first, end;
  ec_backend_kernel_call *calls;
  ec_run_write *writes;
  ec_value **slots; /* of inputs, then outputs */
  const ec_backend_value **values; /* likewise */
  bool *refused;    /* by call: set by the backend */
  size_t call_count, write_count, input_count, output_count, value_count;
} ec_delegate_run;

ec_status ec_analyse_runs(const ec_pass_context *p, ec_run_analysis *out, ec_error *err);

/* Shows one kernel call by itself, with a value for each tensor. Sets `reason` to NULL, or in a few
 * words to why the call cannot be part of a run. */
ec_status ec_view_call(ec_run_analysis *c, const ec_instr *in, ec_backend_kernel_call *out,
                        const char **reason, ec_error *err);

/* Builds the longest run from instruction `first` to at most `end`. It ends before the first call
 * whose values are not those of the calls before it or of memory at its beginning. */
ec_status ec_build_run(ec_run_analysis *c, size_t first, size_t end, ec_delegate_run *out,
                             ec_error *err);

#endif
