/* EC_WIDE: what sums and running products are kept in. Floating point in double, more exact than
 * any order of float32 steps; integers modulo 2^64. */
#undef EC_WIDE
#if EC_IS_COMPLEX
#define EC_WIDE double _Complex
#elif EC_IS_FLOAT
#define EC_WIDE double
#else
#define EC_WIDE uint64_t
#endif
