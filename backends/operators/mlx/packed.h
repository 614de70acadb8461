/* Weights of groups: codes of a few bits, and scales. */
#ifndef EMO_PACKED_H
#define EMO_PACKED_H

#include "call.h"

typedef enum emo_mode { EMO_AFFINE, EMO_NVFP4, EMO_MXFP4, EMO_MXFP8 } emo_mode;

typedef struct emo_packed {
  const ec_backend_tensor *w, *scales, *biases;
  int64_t group, bits;
  int64_t rows, width; /* of all matrices; elements of a row */
  emo_mode mode;
} emo_packed;

/* Positions of the arguments of a packed weight. */
typedef struct emo_packed_args {
  size_t w, scales, biases, group_size, bits, mode;
} emo_packed_args;

uint32_t emo_read_packed(const emo_call *c, const emo_packed_args *at, emo_packed *out);
/* Decodes `count` elements of a row, from `first` on. */
void emo_decode(const emo_packed *p, int64_t row, int64_t first, int64_t count, float *out);

#endif
