/* EC_WIDE: the accumulator type of sums and running products. Floating point uses double, which is
 * more exact than any order of float32 steps; integers are modulo 2^64. */
#undef EC_WIDE
#if EC_IS_COMPLEX
#define EC_WIDE double _Complex
#elif EC_IS_FLOAT
#define EC_WIDE double
#else
#define EC_WIDE uint64_t
#endif
