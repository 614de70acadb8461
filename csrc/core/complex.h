/* Complex arithmetic with the results of eager PyTorch: the plain definitions, without C's recovery
 * of infinities (a library call for each NaN result). Loops vectorise, and an infinite part often
 * makes the other part NaN. For real types these functions are the plain operators. */
#ifndef EC_CORE_COMPLEX_H
#define EC_CORE_COMPLEX_H

#include <complex.h>
#undef I
#include <math.h>
#include <stdbool.h>

#define EC_PART float
#define EC_CFN(name) name##_c64
#define EC_FABS fabsf
#define EC_CLOG clogf
#include "core/complex.tmpl.h"

#define EC_PART double
#define EC_CFN(name) name##_c128
#define EC_FABS fabs
#define EC_CLOG clog
#include "core/complex.tmpl.h"

#define ec_times(x, y)                                                                             \
  _Generic((x), float _Complex: ec_times_c64((float _Complex)(x), (float _Complex)(y)),            \
           double _Complex: ec_times_c128((double _Complex)(x), (double _Complex)(y)),             \
           default: (x) * (y))

#define ec_over(x, y)                                                                              \
  _Generic((x), float _Complex: ec_over_c64((float _Complex)(x), (float _Complex)(y)),             \
           double _Complex: ec_over_c128((double _Complex)(x), (double _Complex)(y)),              \
           default: (x) / (y))

#define ec_log1p(x)                                                                                \
  _Generic((x), float _Complex: ec_log1p_c64, double _Complex: ec_log1p_c128)(x)

#endif
