/* Bits of integers; of bool they are the logical operations. */
#define EC_NAME bit_and
#define EC_EXPR(x, y) ((EC_C)((x) & (y)))
#include "kernels/pointwise/loop2.h"
#define EC_NAME bit_or
#define EC_EXPR(x, y) ((EC_C)((x) | (y)))
#include "kernels/pointwise/loop2.h"
#define EC_NAME bit_xor
#define EC_EXPR(x, y) ((EC_C)((x) ^ (y)))
#include "kernels/pointwise/loop2.h"
#define EC_NAME bit_not
#if EC_IS_BOOL
#define EC_EXPR(x) (!(x))
#else
#define EC_EXPR(x) ((EC_C)~(x))
#endif
#include "kernels/pointwise/loop1.h"
