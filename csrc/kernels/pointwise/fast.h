/* Loops (of float32, and a few of float64) that vectorise, in place of calls of libm per element:
 * range reduction and polynomials, within a few units in the last place of libm. Integer loops
 * divide exactly in floating point. The plain loops in math.tmpl.h and arith.tmpl.h are the
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

/* One table per instruction set; NULL: no loop. */
extern const ec_elementwise_loop ec_fast_generic[EC_FAST_COUNT];
extern const ec_elementwise_loop ec_fast_avx2[EC_FAST_COUNT];
extern const ec_elementwise_loop ec_fast_avx512[EC_FAST_COUNT];
extern const ec_elementwise_loop ec_fast64_avx2[EC_FAST_COUNT]; /* of float64 */
extern const ec_elementwise_loop ec_fast64_avx512[EC_FAST_COUNT];

/* True if this machine has the instruction sets of those tables. Defined on x86-64. */
bool ec_fast_has_avx2(void);
bool ec_fast_has_avx512(void);

/* Returns the loop for integers; NULL: none. */
ec_elementwise_loop ec_fast_int(ec_fast which, ec_dtype compute);

/* Returns the best loop for this machine and dtype; NULL: only the plain one. */
ec_elementwise_loop ec_fast_loop(ec_fast which, ec_dtype compute);

/* ec_unary with the fast loop, if one exists and the call does not request the reference. */
ec_status ec_unary_fast(ec_call *c, size_t o, ec_elementwise_loops loops, ec_fast which,
                        unsigned flags, const ec_params *params);
ec_status ec_binary_fast(ec_call *c, size_t o, ec_elementwise_loops loops, ec_fast which,
                         unsigned flags);

#endif
