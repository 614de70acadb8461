/* Instruction sets that the hot loops are compiled for in addition to the baseline.
 *
 * EC_SIMD_X86 is 1 where a function can carry an __attribute__((target(...))) and be selected at
 * run time: x86-64 with GCC or Clang, except in small builds (EC_SMALL: one variant of each loop).
 * EC_CLONES before a function compiles it for several instruction sets, among which the dynamic
 * linker selects. It is empty where ifunc is missing, and
 * under sanitizers, whose runtime is not initialised when the linker calls the resolver. */
#ifndef EC_CORE_SIMD_H
#define EC_CORE_SIMD_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(EC_SMALL)
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

/* Shuffles two vectors by constant positions; positions of the second follow those of the first.
 * The result has as many elements as `a`. */
#if defined(__clang__) || __GNUC__ >= 12
#define EC_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define EC_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) < (b))){__VA_ARGS__})
#endif

#endif
