/* Scalar products, and what becomes of their sums.
 *
 * Factors are floats, as in the flow's reference; their products and sums are computed in double,
 * so that sums of integers are exact and rounded once. */
#ifndef CADENCE_DOT_H
#define CADENCE_DOT_H

#include "quantize.h"

static inline double cad_dot(const float *a, const float *b, int64_t n) {
  double sums[4] = {0}; /* independent, for the pipeline */
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += (double)a[i + k] * (double)b[i + k];
  for (; i < n; i++) sums[0] += (double)a[i] * (double)b[i];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* Turns sums into elements of the output: quantised, or floats. */
typedef struct cad_finish {
  bool quantizes;
  float scale; /* of a sum, before it is quantised */
  cad_quantizer q;
} cad_finish;

static inline float cad_finish_sum(const cad_finish *f, double sum) {
  const float value = (float)sum;
  return f->quantizes ? cad_quantize(&f->q, value * f->scale) : value;
}


#endif
