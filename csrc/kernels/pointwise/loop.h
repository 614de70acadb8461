/* Shared macros of the loop templates. A template file names a loop and its expression:
 *
 *   #define EC_NAME mul
 *   #define EC_EXPR(x, y) ((x) * (y))
 *   #include "kernels/pointwise/loop2.h"
 *
 * and is itself included once per dtype. In an expression EC_P(k) is the call's k-th number.
 * EC_LOOP_CLONES compiles the loop for several instruction sets (core/simd.h) if that is faster,
 * EC_LOOP_FLOAT_CLONES those of floats.
 * EC_OUT and EC_PUT change the output type (default: bool for EC_PREDICATE loops). */
#define EC_P(k) EC_PARAM(params, k)
#if EC_IS_FLOAT || EC_IS_COMPLEX
#define EC_PARAM(p, k) ((EC_C)(p)->v[k].d)
#else
#define EC_PARAM(p, k) ((EC_C)(p)->v[k].i)
#endif
#ifndef EC_OUT
#ifdef EC_PREDICATE
#define EC_OUT uint8_t
#define EC_PUT(x) ((uint8_t)(x))
#else
#define EC_OUT EC_T
#define EC_PUT(x) EC_STORE(x)
#endif
#endif
#if defined(EC_LOOP_CLONES) || (defined(EC_LOOP_FLOAT_CLONES) && EC_IS_FLOAT)
#define EC_LOOP EC_CLONES static
#else
#define EC_LOOP static
#endif
#define EC_AT(type, k, i) (*(type *)(void *)(at[k] + (i) * step[k]))
