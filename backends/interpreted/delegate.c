/* The program of a payload: written, opened, run under the names of the payload's nodes. */
#include "delegate.h"

#include "pte.h"
#include "unread.h"

void ect_delegate_close(ect_delegate *d) {
  if (d->program) d->host->program_close(d->program);
  if (!d->host) return;
  d->host->free(d->bytes.data);
  d->host->free(d->nodes);
  d->host->free(d->is_number);
  *d = (ect_delegate){0};
}

static bool copy_names(const ect_program *p, const bool *is_number, ect_delegate *d) {
  d->nodes = d->host->alloc((p->call_count + 1) * sizeof *d->nodes);
  d->is_number = d->host->alloc(d->input_count + 1);
  if (!d->nodes || !d->is_number) return false;
  for (size_t i = 0; i < p->call_count; i++) d->nodes[i] = p->calls[i].node;
  for (size_t i = 0; is_number && i < d->input_count; i++) d->is_number[i] = is_number[i];
  return true;
}

uint32_t ect_delegate_open(ec_host_call *call, ect_program *p, const int64_t *inputs,
                           const bool *is_number, size_t input_count, const int64_t *outputs,
                           size_t output_count, ect_delegate *out) {
  const ec_host *host = p->host;
  *out = (ect_delegate){
      .host = host, .input_count = input_count, .output_count = output_count};
  if (!ect_drop_unread(p, outputs, output_count))
    return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for the payload's program");
  out->node_count = p->call_count;
  uint32_t status =
      ect_write_pte(call, p, inputs, input_count, outputs, output_count, &out->bytes);
  if (status == EC_BACKEND_OK && !copy_names(p, is_number, out))
    status = host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu nodes",
                        p->call_count);
  if (status == EC_BACKEND_OK)
    status = host->program_open(call, out->bytes.data, out->bytes.size, "forward", &out->program);
  if (status != EC_BACKEND_OK) ect_delegate_close(out);
  return status;
}

/* Shows a number, or a tensor with one element, as a tensor of rank 0. */
static uint32_t show_number(const ect_delegate *d, ec_host_call *call, size_t index,
                            ec_backend_arg *arg) {
  ec_backend_tensor *t = &arg->as.tensor;
  size_t elements = 1;
  if (arg->kind == EC_BACKEND_INT) {
    int64_t *number = d->host->scratch(call, sizeof *number);
    if (!number) return d->host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory");
    *number = arg->as.i;
    *arg = (ec_backend_arg){.kind = EC_BACKEND_TENSOR};
    *t = (ec_backend_tensor){.data = number,
                             .nbytes = sizeof *number,
                             .capacity = sizeof *number,
                             .dtype = EC_DTYPE_INT64};
    return EC_BACKEND_OK;
  }
  if (arg->kind == EC_BACKEND_TENSOR)
    for (uint16_t i = 0; i < t->rank; i++) elements *= (size_t)t->sizes[i];
  if (arg->kind != EC_BACKEND_TENSOR || elements != 1)
    return d->host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                         "input %zu is not a number, expected an int or a tensor with one element",
                         index);
  t->rank = 0;
  return EC_BACKEND_OK;
}

uint32_t ect_delegate_run(const ect_delegate *d, ec_host_call *call, ec_backend_arg *args,
                          size_t count) {
  uint32_t status = EC_BACKEND_OK;
  for (size_t i = 0; i < d->input_count && status == EC_BACKEND_OK; i++)
    if (d->is_number[i]) status = show_number(d, call, i, &args[i]);
  if (status != EC_BACKEND_OK) return status;
  return d->host->program_run_nodes(call, d->program, args, count, d->nodes, d->node_count);
}

uint32_t ect_delegate_init(const ec_host *host, ec_host_call *call, const ec_backend_init *what,
                           ect_translate_fn *translate, void **handle) {
  if (what->option_count)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "unknown option '%s': there are none",
                      what->options[0].key);
  if (host->struct_size < sizeof(ec_host))
    return host->fail(call, EC_BACKEND_NOT_SUPPORTED, "the runtime is older than this backend");
  ect_delegate *d = host->alloc(sizeof *d);
  if (!d) return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for a delegate");
  const uint32_t status = translate(host, call, what, d);
  if (status != EC_BACKEND_OK) host->free(d);
  else *handle = d;
  return status;
}

uint32_t ect_delegate_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                              void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  const ect_delegate *d = handle;
  if (count != d->input_count + d->output_count)
    return host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                      "%zu arguments, the payload has %zu inputs and %zu outputs", count,
                      d->input_count, d->output_count);
  return ect_delegate_run(d, call, args, count);
}

void ect_delegate_reset(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  host->program_reset(((const ect_delegate *)handle)->program);
}

void ect_delegate_destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  ect_delegate_close(handle);
  host->free(handle);
}
