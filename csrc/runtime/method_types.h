/* Types for callers of a method: load options and arrays. */
#ifndef EC_RUNTIME_METHOD_TYPES_H
#define EC_RUNTIME_METHOD_TYPES_H

#include "core/budget.h"
#include "core/value.h"
#include "executorch_c/backend.h"

typedef struct ec_method ec_method;
struct ec_kv_cache;

/* Options for the delegates of one backend. */
typedef struct ec_backend_options {
  const char *id;
  const ec_backend_option *items;
  size_t count;
} ec_backend_options;

/* Load-time delegation: kernel calls are left to the kernels, handed to a backend where that pays,
 * or wherever it is possible; or each by itself, in traced calls too, for validation. */
typedef enum ec_delegation {
  EC_DELEGATE_NEVER,
  EC_DELEGATE_WHERE_IT_PAYS,
  EC_DELEGATE_ALWAYS,
  EC_DELEGATE_EACH
} ec_delegation;

typedef struct ec_method_options {
  bool reference_kernels; /* plain loops only */
  ec_delegation delegation;
  uint32_t skipped_passes; /* a bit for each: ec_pass_name */
  bool backends_unknown; /* NotFound, once, if delegation needs those that are not registered */
  bool seeded;            /* random operators start from `seed`, else from the system's entropy */
  uint64_t seed;
  size_t threads; /* for loops, the calling thread included; 0: ec_threads_default() */
  const ec_backend_options *backends; /* copied; one for each id */
  size_t backend_count;
  uint64_t max_steps, max_bytes; /* for loading, and for each call; 0: see ec_method_budget */
  struct ec_kv_cache *kv_cache; /* the method becomes a holder; NULL: none */
  const ec_interrupt *interrupt; /* called while the method is loaded; NULL: none */
} ec_method_options;

/* Returns the name and purpose of pass `index`, a bit of ec_method_options.skipped_passes; NULL
 * after the last one. A small build has none. */
const char *ec_pass_name(size_t index, const char **purpose);

/* An array of the caller's. It must stay valid until unlock. */
typedef struct ec_array {
  void *data; /* of element (0, 0, ...) */
  ec_dtype dtype;
  size_t rank;
  const int64_t *sizes;
  const int64_t *strides; /* in BYTES; negative and zero allowed */
} ec_array;

#endif
