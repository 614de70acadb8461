/* Recorded calls: the loops that a call ran, to be run again without its checks.
 *
 * A small call takes less time in its loop than in finding it: dtypes, broadcasting, strides,
 * schemas. If no argument of a call ever changes its shape, its number or its address, the first
 * execution records its loops, and the next ones run only these, on the same memory: the same
 * arithmetic. A function that completes an output (ec_elementwise_run, ec_region_to_out, the
 * product of one or two rows) adds a step for each of its loops, or refuses. A record counts if
 * its steps write as many elements as the call has outputs. */
#ifndef EC_KERNELS_RECORD_H
#define EC_KERNELS_RECORD_H

#include "core/small.h"
#include "kernels/call.h"

/* Runs the loop of a step. Returns false if the kernel has to report an error. */
typedef struct ec_recorded_loop ec_recorded_loop;
typedef bool (*ec_recorded_fn)(const ec_recorded_loop *step);

/* The first member of each kind of step. */
struct ec_recorded_loop {
  ec_recorded_loop *next;
  ec_recorded_fn run;
};

/* The steps of all calls of a method. */
typedef struct ec_record_memory {
  ec_arena *arena;
  size_t room; /* free for more */
  struct ec_row_panels *panels; /* of weights that products of few rows read (linalg/gemm.c) */
} ec_record_memory;

typedef enum ec_record_state {
  EC_RECORD_EMPTY,
  EC_RECORD_READY,
  EC_RECORD_REFUSED
} ec_record_state;

typedef struct ec_record {
  ec_record_memory *memory;
  ec_recorded_loop *first, *last;
  uint8_t state;     /* an ec_record_state */
  uint64_t written;  /* elements, by all steps */
  uint64_t elements; /* of the call's tensors, which its execution costs */
} ec_record;

/* Returns the record that the call fills, or NULL. */
static inline ec_record *ec_record_of(const ec_call *c) {
  return EC_IS_SMALL || !c || !c->record || c->record->state != EC_RECORD_EMPTY ? NULL : c->record;
}

/* Returns zeroed bytes that live as long as the method; NULL without room. */
void *ec_record_alloc(ec_record_memory *memory, size_t size);

/* Adds a step of `size` zeroed bytes, of which a copy of `step` is the beginning, and which writes
 * `written` elements. Without room the record is refused, and the result is NULL. */
void *ec_record_add(ec_record *record, ec_recorded_fn run, size_t size, int64_t written);

/* Refuses the call: it has an effect that no step repeats. */
void ec_record_refuse(ec_record *record);

/* Runs all steps. Returns false if the call has no record, or the kernel must run. */
static inline bool ec_record_run(const ec_record *record) {
  if (!record || record->state != EC_RECORD_READY) return false;
  for (const ec_recorded_loop *s = record->first; s; s = s->next)
    if (!s->run(s)) return false;
  return true;
}

#endif
