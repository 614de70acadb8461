/* The most that one thread reaches: multiply-adds in registers, and a copy. Compiled by
 * bench_roofline.py, which runs one call in each thread. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
enum { BYTES = 64, CHAINS = 16 };
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 10 };
#else
enum { BYTES = 16, CHAINS = 10 };
#endif
typedef float floats __attribute__((vector_size(BYTES)));

/* Returns the number of multiply-adds in `rounds` rounds; as many chains as hide their latency. */
double multiply_adds(size_t rounds, float *sink) {
    floats sum[CHAINS], by = {0};
    for (int i = 0; i < CHAINS; i++)
        sum[i] = by + (float)i;
    by += 0.5f;
    __asm__ volatile("" : "+v"(by)); /* unknown to the optimiser */
    for (size_t n = 0; n < rounds; n++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            sum[i] = sum[i] * by + by;
    for (int i = 0; i < CHAINS; i++)
        *sink += sum[i][0];
    return (double)rounds * CHAINS * (BYTES / sizeof(float));
}

/* Likewise for products of uint8 and int8, summed in int32; 0 if the processor has none. */
double int8_multiply_adds(size_t rounds, float *sink) {
#ifdef __AVX512VNNI__
    __m512i sum[CHAINS], by = _mm512_set1_epi8(1);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm512_set1_epi32(i);
    __asm__ volatile("" : "+v"(by));
    for (size_t n = 0; n < rounds; n++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_dpbusd_epi32(sum[i], by, by);
    for (int i = 0; i < CHAINS; i++)
        *sink += (float)_mm512_reduce_add_epi32(sum[i]);
    return (double)rounds * CHAINS * 64;
#else
    (void)rounds;
    (void)sink;
    return 0;
#endif
}

/* Copies; returns the bytes read and written. */
double copy(size_t rounds, void *to, const void *from, size_t size) {
    for (size_t n = 0; n < rounds; n++) {
        memcpy(to, from, size);
        __asm__ volatile("" ::: "memory");
    }
    return 2.0 * (double)rounds * (double)size;
}
