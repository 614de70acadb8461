/* The building blocks of decompositions for double and double _Complex (blocks.tmpl.h). */
#ifndef EC_KERNELS_DECOMP_BLOCKS_H
#define EC_KERNELS_DECOMP_BLOCKS_H

#include <float.h>
#include <string.h>

#include "core/template.h"
#include "kernels/decomp/decomp.h"

enum { EC_OP_NONE, EC_OP_TRANSPOSE, EC_OP_ADJOINT };

/* A triangle of a matrix: upper or lower, with or without an implicit unit diagonal, and its
 * form. */
typedef struct ec_triangle {
  bool upper, unit;
  int op;
} ec_triangle;

#define EC_TEMPLATE "kernels/decomp/blocks.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

#endif
