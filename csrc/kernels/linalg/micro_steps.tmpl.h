/* The three row counts of one element type, named by EC_M_NAME(thirds); the other macros are those
 * of micro.tmpl.h. */
#define EC_M_STEP (3 * EC_M_THIRD)
#define EC_M_ROWS EC_M_THIRD
#define EC_M_FN EC_M_NAME(1)
#include "kernels/linalg/micro.tmpl.h"
#define EC_M_ROWS (2 * EC_M_THIRD)
#define EC_M_FN EC_M_NAME(2)
#include "kernels/linalg/micro.tmpl.h"
#define EC_M_ROWS (3 * EC_M_THIRD)
#define EC_M_FN EC_M_NAME(3)
#include "kernels/linalg/micro.tmpl.h"
#undef EC_M_STEP
#undef EC_M_T
#undef EC_M_V
#undef EC_M_U
#undef EC_M_SET
#undef EC_M_FMA
#undef EC_M_NAME
