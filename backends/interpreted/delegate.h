/* A translated payload that is ready to run. */
#ifndef ECT_DELEGATE_H
#define ECT_DELEGATE_H

#include "format/fb_write.h"
#include "values.h"

typedef struct ect_delegate {
  const ec_host *host;
  ec_fb_writer bytes; /* of the .pte */
  ec_host_program *program;
  ec_backend_node *nodes; /* by instruction; names belong to the payload */
  size_t node_count, input_count, output_count;
  bool *is_number; /* by input: an int64 tensor of rank 0 that takes a number or one element */
} ect_delegate;

/* Writes and opens the program. `is_number` may be NULL. */
uint32_t ect_delegate_open(ec_host_call *call, ect_program *p, const int64_t *inputs,
                           const bool *is_number, size_t input_count, const int64_t *outputs,
                           size_t output_count, ect_delegate *out);
/* Runs it on the delegate's arguments, whose number the caller has checked. dtypes and dim orders
 * are converted. */
uint32_t ect_delegate_run(const ect_delegate *d, ec_host_call *call, ec_backend_arg *args,
                          size_t count);
void ect_delegate_close(ect_delegate *d);

/* Translates a payload into a delegate. */
typedef uint32_t ect_translate_fn(const ec_host *host, ec_host_call *call,
                                  const ec_backend_init *what, ect_delegate *out);
/* `init` of a backend without options: allocates a delegate, which `translate` opens. */
uint32_t ect_delegate_init(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                           ect_translate_fn *translate, void **handle);
/* `execute` of a backend: checks the number of arguments and runs the program. */
uint32_t ect_delegate_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                              void *handle, ec_backend_arg *args, size_t count);
/* `reset` of a backend. */
void ect_delegate_reset(const ec_backend *self, const ec_host *host, void *handle);
/* `destroy` of a backend. */
void ect_delegate_destroy(const ec_backend *self, const ec_host *host, void *handle);

#endif
