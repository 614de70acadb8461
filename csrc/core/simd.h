/* Which instruction sets the hot loops are compiled for beside the baseline.
 *
 * EC_SIMD_X86 is 1 where a function may carry its own __attribute__((target(...))) and be chosen
 * at run time: x86-64 with GCC or Clang. EC_CLONES in front of a function compiles it for several
 * instruction sets and lets the dynamic linker choose; it is empty where that machinery (ifunc)
 * does not exist, and under sanitizers, whose runtime is not up yet when the linker asks. */
#ifndef EC_CORE_SIMD_H
#define EC_CORE_SIMD_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define EC_SIMD_X86 1
#else
#define EC_SIMD_X86 0
#endif

#if EC_SIMD_X86 && !defined(__clang__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&  \
    !defined(__SANITIZE_THREAD__)
#define EC_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EC_CLONES
#endif

/* A vector of elements of two others by constant positions, the second vector's after the first's;
 * in as many as `a` has. */
#if defined(__clang__) || __GNUC__ >= 12
#define EC_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define EC_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) < (b))){__VA_ARGS__})
#endif

#endif
