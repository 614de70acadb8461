/* The range of a tensor's elements in one pass. */
#include "trace/range.h"

#include "core/template.h"

static void range_add(ec_range *r, size_t at, double v) {
  if (r->first == UINT64_MAX) r->first = at;
  r->nan += isnan(v) ? 1 : 0;
  r->above += v > 0 ? 1 : 0;
  r->below += v < 0 ? 1 : 0;
}

#define EC_TEMPLATE "trace/range.tmpl.h"
#include "core/foreach/realb.h"
#undef EC_TEMPLATE

typedef void (*range_fn)(const void *data, size_t count, ec_range *r);
/* A complex element counts as a pair. */
static const range_fn ranges[EC_DTYPE_COUNT] = {
    EC_ROWS_REALB(range), [EC_COMPLEX64] = EC_KEEP(complex64, range_float32),
    [EC_COMPLEX128] = EC_KEEP(complex128, range_float64)};

void ec_range_of(const ec_tensor *tensor, ec_range *range) {
  const bool pairs = tensor->dtype == EC_COMPLEX64 || tensor->dtype == EC_COMPLEX128;
  *range = (ec_range){.first = UINT64_MAX, .low = INFINITY, .high = -INFINITY};
  if (!ranges[tensor->dtype] || !tensor->data) return;
  ranges[tensor->dtype](tensor->data, (size_t)tensor->numel * (pairs ? 2 : 1), range);
  if (pairs && range->first != UINT64_MAX) range->first /= 2;
}
