/* The table of conversions by pairs of dtypes: cast.tmpl.h once per target, cast_from.tmpl.h once
 * per source inside it. */
#include "kernels/cast.h"

#include <string.h>

#include "core/convert.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/cast_half.h"
#include "kernels/cast_int64.h"

/* No table has ec_dropped_loop as a row of functions. */
#undef EC_KEEP
#define EC_KEEP(suffix, fn) (EC_CASTS_##suffix ? (fn) : NULL)

#define EC_TEMPLATE "kernels/cast.tmpl.h"
#include "core/foreach/stored.h"
#undef EC_TEMPLATE

static const ec_cast_fn *const casts[EC_DTYPE_COUNT] = {EC_ROWS_STORED(casts)};

ec_cast_fn ec_cast(ec_dtype dst, ec_dtype src) {
  const ec_cast_fn half = ec_cast_half(dst, src), special = half ? half : ec_cast_int64(dst, src);
  const ec_cast_fn *row = casts[dst];
  if (special) return special;
  return row && row[src] ? row[src] : (ec_cast_fn)(void (*)(void))ec_dropped_loop;
}
