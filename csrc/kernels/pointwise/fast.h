/* Loops (of float32, and a few of float64) that vectorise where libm is called element by element:
 * range reduction and polynomials, within a few units in the last place of libm; and of integers,
 * which divide exactly by floating point. The plain loops in math.tmpl.h and arith.tmpl.h are the
 * reference. */
#ifndef EC_KERNELS_POINTWISE_FAST_H
#define EC_KERNELS_POINTWISE_FAST_H

#include "kernels/pointwise/elementwise.h"

#define EC_INLINE static inline __attribute__((always_inline))

typedef enum ec_fast {
#define EC_FAST(NAME, loop) EC_FAST_##NAME,
#include "kernels/pointwise/fast.def"
#undef EC_FAST
  EC_FAST_COUNT
} ec_fast;

/* One table for each instruction set; NULL rows are not there. */
extern const ec_elementwise_loop ec_fast_generic[EC_FAST_COUNT];
extern const ec_elementwise_loop ec_fast_avx2[EC_FAST_COUNT];
extern const ec_elementwise_loop ec_fast64_avx2[EC_FAST_COUNT]; /* of float64 */

/* Of integers; NULL: there is none. */
ec_elementwise_loop ec_fast_int(ec_fast which, ec_dtype compute);

/* The best loop for this machine in this dtype; NULL: there is none but the plain one. */
ec_elementwise_loop ec_fast_loop(ec_fast which, ec_dtype compute);

/* ec_unary with the fast loop where there is one, unless the call asks for the reference. */
ec_status ec_unary_fast(ec_call *c, size_t o, ec_elementwise_loops loops, ec_fast which,
                        unsigned flags, const ec_params *params);
ec_status ec_binary_fast(ec_call *c, size_t o, ec_elementwise_loops loops, ec_fast which,
                         unsigned flags);

#endif
