/* Discrete Fourier transforms of lines, and the interface for operators.
 *
 * A block of `lanes` lines is transformed at once. Real and imaginary parts are in separate arrays,
 * [n][lanes], so that every inner loop accesses memory in order. */
#ifndef EC_KERNELS_FFT_FFT_H
#define EC_KERNELS_FFT_FFT_H

#include "kernels/copy.h"

enum { EC_FFT_FACTORS = 64, EC_FFT_RADIX = 64 /* larger primes: Bluestein's algorithm */ };

/* The plan for lines of one length, in scratch memory. */
typedef struct ec_fft {
  size_t n;    /* length */
  size_t room; /* elements of a work array per lane: n, or more for Bluestein's algorithm */
  size_t count, factors[EC_FFT_FACTORS];
  const void *roots; /* pairs (re, im) of exp(-2 pi i j / (n * root_step)) */
  size_t root_step;
  const void *chirp, *kernel; /* Bluestein's: pairs; NULL otherwise */
  struct ec_fft *inner;
} ec_fft;

/* The element types of input and output. */
typedef enum ec_fft_kind { EC_FFT_C2C, EC_FFT_R2C, EC_FFT_C2R } ec_fft_kind;

/* One direction of a tensor: lines of n elements (of the real side for r2c and c2r). */
typedef struct ec_fft_axis {
  ec_fft_kind kind;
  bool forward;
  size_t n, lanes;
  double scale;
  size_t in_n, out_n;           /* elements in memory */
  int64_t in_stride, out_stride; /* elements */
  bool half;                    /* even real length: a complex transform of n / 2 */
  ec_fft plan;
  const void *roots; /* of n, if `half` */
  void *work;        /* four arrays of `room` elements */
  size_t room;
} ec_fft_axis;

#endif
