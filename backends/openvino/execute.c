/* One call: outputs are copied from the engine's own memory, whose shapes it may choose. */
#include "execute.h"

#include <string.h>

#include "request.h"
#include "tensors.h"
#include "trace.h"

/* Resizes an output of the program and copies the result. The engine's tensors are row-major. */
static uint32_t store_result(const ec_backend_call *c, size_t i, const eco_result *r,
                             ec_backend_arg *arg) {
  const eco_dtype *row = eco_dtype_of_type(r->type), *expected = NULL;
  const size_t rank = r->shape.rank > 0 ? (size_t)r->shape.rank : 0;
  if (arg->kind == EC_BACKEND_TENSOR) expected = eco_dtype_of(arg->as.tensor.dtype);
  if (!expected || row != expected)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "output %zu is %s in the model, %s in the program", i,
                           row ? row->name : "of an unknown dtype",
                           expected ? expected->name : "no tensor of a dtype that OpenVINO has");
  if (rank > ECO_RANK)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "output %zu has rank %zu, expected at most %d", i, rank, ECO_RANK);
  EC_BACKEND_TRY(c->host->resize(c->call, arg, rank, r->shape.dims));
  ec_backend_tensor *t = &arg->as.tensor;
  if (t->nbytes != r->size || !eco_is_row_major(t))
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_PROGRAM,
        "output %zu has %zu bytes in the model, and %zu in %s order in the program", i, r->size,
        t->nbytes, eco_is_row_major(t) ? "the same" : "another");
  if (r->size) memcpy(t->data, r->data, r->size);
  return EC_BACKEND_OK;
}

static uint32_t copy_output(const ec_backend_call *c, const eco_delegate *d, size_t i,
                            ec_backend_arg *arg) {
  eco_result r;
  uint32_t status = eco_result_open(c, d->lib, d->request, i, &r);
  if (!status) status = store_result(c, i, &r, arg);
  eco_result_close(d->lib, &r);
  return status;
}

uint32_t eco_execute(const ec_backend_call *c, eco_delegate *d, ec_backend_arg *args,
                     size_t count) {
  const eco_library *lib;
  EC_BACKEND_TRY(eco_library_open(c, &lib)); /* refuses a forked process */
  if (count != d->inputs + d->outputs)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "the program passes %zu arguments, but the model has %zu inputs and %zu "
                           "outputs",
                           count, d->inputs, d->outputs);
  EC_BACKEND_TRY(eco_request_run(c, d, d->request, args));
  EC_BACKEND_TRY(
      eco_trace(c, d, args)); /* before outputs, which may overlap the inputs that it reads */
  for (size_t i = 0; i < d->outputs; i++)
    EC_BACKEND_TRY(copy_output(c, d, i, &args[d->inputs + i]));
  d->calls++;
  return EC_BACKEND_OK;
}
