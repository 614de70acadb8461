/* core/template.h with <tgmath.h>: exp(x) is expf, exp, cexpf or cexp by the type of x. */
#ifndef EC_KERNELS_POINTWISE_TEMPLATE_H
#define EC_KERNELS_POINTWISE_TEMPLATE_H

#include "core/complex.h"
#include "core/simd.h"
#include "core/template.h"

#include <tgmath.h>
#undef I

#include "kernels/pointwise/elementwise.h"

#endif
