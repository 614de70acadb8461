/* The program of a payload: written, opened, run under the names of the payload's nodes. */
#include "delegate.h"

#include <stddef.h>

#include "describe.h"
#include "pte.h"
#include "translate.h"
#include "unread.h"

typedef struct delegate {
  const ec_host *host;
  ec_fb_writer bytes; /* of the .pte */
  ec_host_program *program;
  ec_backend_node *nodes; /* by instruction; names belong to the payload */
  size_t node_count, input_count, output_count;
  bool *is_number;   /* by input */
  int32_t *narrowed; /* by output: see ect_program */
} delegate;

/* ---- init, describe, destroy ----------------------------------------------------------------- */

static bool copy_names(const ect_program *p, delegate *d) {
  d->nodes = d->host->alloc((p->call_count + 1) * sizeof *d->nodes);
  d->is_number = d->host->alloc(d->input_count + 1);
  d->narrowed = d->host->alloc((d->output_count + 1) * sizeof *d->narrowed);
  if (!d->nodes || !d->is_number || !d->narrowed) return false;
  for (size_t i = 0; i < p->call_count; i++) d->nodes[i] = p->calls[i].node;
  for (size_t i = 0; i < d->input_count; i++) d->is_number[i] = p->is_number[i];
  for (size_t i = 0; i < d->output_count; i++) d->narrowed[i] = p->narrowed[i];
  return true;
}

/* Writes and opens the program. */
static uint32_t open_program(ec_host_call *call, ect_program *p, delegate *d) {
  const ec_host *host = p->host;
  EC_BACKEND_TRY(ect_finish(call, p));
  d->node_count = p->call_count;
  d->input_count = p->input_count;
  d->output_count = p->output_count;
  const uint32_t status = ect_write_pte(call, &(ect_method){"forward", p}, 1, &d->bytes);
  if (status != EC_BACKEND_OK) return status;
  if (!copy_names(p, d))
    return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu nodes", p->call_count);
  return host->program_open(call, d->bytes.data, d->bytes.size, "forward", &d->program);
}

static bool wants_operators(const ec_backend_visitor *v) {
  return v->struct_size >= offsetof(ec_backend_visitor, op) + sizeof v->op && v->op;
}

/* Describes a graph. Types that only its translation finds are there as far as that goes, and its
 * operators. */
static uint32_t describe(ect_graph *g, const ec_backend_visitor *visitor) {
  if (g->format->infers_types) (void)ect_translate(g);
  for (size_t i = 0; wants_operators(visitor) && i < g->program.op_count; i++)
    visitor->op(visitor->user, g->program.ops[i]);
  return ect_describe_graph(g, visitor);
}

/* Reads a payload, and describes it to `visitor`, or translates it into `d` if that is NULL. */
static uint32_t with_graph(const ect_format *format, const ec_backend_call *c,
                           const ec_backend_init *what, const ec_backend_visitor *visitor,
                           delegate *d) {
  ect_graph *g = c->host->alloc(sizeof *g);
  if (!g) return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a graph");
  g->c = *c;
  g->format = format;
  g->program.host = c->host;
  uint32_t status = format->read(g, what);
  if (status == EC_BACKEND_OK && visitor) status = describe(g, visitor);
  else if (status == EC_BACKEND_OK) status = ect_translate(g);
  if (status == EC_BACKEND_OK && !visitor) status = open_program(c->call, &g->program, d);
  ect_graph_close(g);
  ect_free(&g->program);
  c->host->free(g);
  return status;
}

uint32_t ect_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                  const ec_backend_init *what, void **handle) {
  const ec_backend_call c = {host, call};
  if (what->option_count)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "unknown option '%s': there are none",
                      what->options[0].key);
  if (host->struct_size < sizeof(ec_host))
    return host->fail(call, EC_BACKEND_NOT_SUPPORTED, "the runtime is older than this backend");
  delegate *d = host->alloc(sizeof *d);
  if (!d) return host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory for a delegate");
  d->host = host;
  const uint32_t status = with_graph(self->user, &c, what, NULL, d);
  if (status != EC_BACKEND_OK) ect_destroy(self, host, d);
  else *handle = d;
  return status;
}

uint32_t ect_describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                      const ec_backend_init *what, const ec_backend_visitor *visitor) {
  const ec_backend_call c = {host, call};
  return with_graph(self->user, &c, what, visitor, NULL);
}

void ect_destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  delegate *d = handle;
  if (d->program) host->program_close(d->program);
  host->free(d->bytes.data);
  host->free(d->nodes);
  host->free(d->is_number);
  host->free(d->narrowed);
  host->free(d);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Shows a number, or a tensor with one element, as a tensor of rank 0. */
static uint32_t show_number(const delegate *d, ec_host_call *call, size_t index,
                            ec_backend_arg *arg) {
  ec_backend_tensor *t = &arg->as.tensor;
  size_t elements = 1;
  if (arg->kind == EC_BACKEND_INT) {
    int64_t *number = d->host->scratch(call, sizeof *number);
    if (!number) return d->host->fail(call, EC_BACKEND_ALLOCATION_FAILED, "no memory");
    *number = arg->as.i;
    *arg = (ec_backend_arg){.kind = EC_BACKEND_TENSOR};
    *t = (ec_backend_tensor){.data = number, .nbytes = sizeof *number, .capacity = sizeof *number,
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

/* Fails if the program passes another number of arguments than the payload has. */
static uint32_t check_count(const delegate *d, const ect_format *format, ec_host_call *call,
                            size_t count) {
  if (count == d->input_count + d->output_count) return EC_BACKEND_OK;
  const bool lost =
      format->lost_outputs && count > d->input_count && count < d->input_count + d->output_count;
  return d->host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                       "%zu arguments, the payload has %zu inputs and %zu outputs%s", count,
                       d->input_count, d->output_count, lost ? format->lost_outputs : "");
}

/* Fails if the payload narrows an output to a dtype that is not the program's: the numbers that
 * the program would get are not those that the graph computes. */
static uint32_t check_narrowed(const delegate *d, ec_host_call *call,
                               const ec_backend_arg *outputs) {
  for (size_t i = 0; i < d->output_count; i++) {
    const int32_t inner = d->narrowed[i], outer = outputs[i].as.tensor.dtype;
    if (inner < 0 || outputs[i].kind != EC_BACKEND_TENSOR || outer == inner) continue;
    return d->host->fail(call, EC_BACKEND_INVALID_PROGRAM,
                         "output %zu is %s in the program, the payload narrows it to %s", i,
                         ec_backend_dtype_name(outer), ec_backend_dtype_name(inner));
  }
  return EC_BACKEND_OK;
}

uint32_t ect_execute(const ec_backend *self, const ec_host *host, ec_host_call *call, void *handle,
                     ec_backend_arg *args, size_t count) {
  const delegate *d = handle;
  EC_BACKEND_TRY(check_count(d, self->user, call, count));
  for (size_t i = 0; i < d->input_count; i++)
    if (d->is_number[i]) EC_BACKEND_TRY(show_number(d, call, i, &args[i]));
  EC_BACKEND_TRY(check_narrowed(d, call, args + d->input_count));
  return host->program_run_nodes(call, d->program, args, count, d->nodes, d->node_count);
}

void ect_reset(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  host->program_reset(((const delegate *)handle)->program);
}
