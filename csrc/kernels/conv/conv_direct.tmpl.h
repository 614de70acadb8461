/* Convolution without matrix products for one dtype: depthwise loops, and the plain reference.
 * EC_G is the compute type, EC_R the reference's accumulator type. */

/* sums[i] += weight * row[i * stride] */
static inline void EC_FN(add_tap)(EC_G *restrict sums, const EC_T *row, int64_t stride,
                                  int64_t count, EC_G weight) {
  if (stride == 1)
    for (size_t i = 0; i < (size_t)count; i++) sums[i] += weight * EC_FN(get)(row[i]);
  else if (stride == 2)
    for (size_t i = 0; i < (size_t)count; i++) sums[i] += weight * EC_FN(get)(row[2 * i]);
  else
    for (int64_t i = 0; i < count; i++) sums[i] += weight * EC_FN(get)(row[i * stride]);
}

/* Adds one row of the input times one row of the kernel to a row of outputs. */
static inline void EC_FN(add_row)(const ec_conv_line *line, const EC_T *row, const EC_T *weight,
                                  EC_G *restrict sums) {
  for (int64_t t = 0; t < line->taps; t++) {
    int64_t x = line->first + line->shift[t], step = line->step;
    int64_t from = x < 0 ? (-x + step - 1) / step : 0;
    int64_t to = x < line->in ? (line->in - 1 - x) / step + 1 : 0;
    if (to > line->out) to = line->out;
    if (from >= to) continue;
    int64_t stride = to - from > 1 ? step * line->in_stride : 1; /* a huge step has one output */
    EC_FN(add_tap)(sums + from, row + (x + from * step) * line->in_stride, stride, to - from,
                   EC_FN(get)(weight[line->weight[t]]));
  }
}

/* Computes one channel of one image row by row. */
EC_CLONES static void EC_FN(depthwise_channel)(const ec_conv_phase *p, const EC_T *in,
                                               const EC_T *weight, EC_T *out, EC_G bias,
                                               EC_G *restrict sums) {
  const ec_conv_line *depth = &p->line[0], *height = &p->line[1], *width = &p->line[2];
  for (int64_t d = 0; d < depth->out; d++)
    for (int64_t h = 0; h < height->out; h++) {
      for (int64_t i = 0; i < width->out; i++) sums[i] = bias;
      for (int64_t i = 0; i < depth->taps; i++)
        for (int64_t j = 0; j < height->taps; j++) {
          int64_t z = d * depth->step + depth->first + depth->shift[i];
          int64_t y = h * height->step + height->first + height->shift[j];
          if (z < 0 || z >= depth->in || y < 0 || y >= height->in) continue;
          EC_FN(add_row)(width, in + z * depth->in_stride + y * height->in_stride,
                         weight + depth->weight[i] + height->weight[j], sums);
        }
      EC_T *to = out + d * depth->out_stride + h * height->out_stride;
      if (width->out_stride == 1)
        for (size_t i = 0; i < (size_t)width->out; i++) to[i] = (EC_T)EC_STORE(sums[i]);
      else
        for (int64_t i = 0; i < width->out; i++)
          to[i * width->out_stride] = (EC_T)EC_STORE(sums[i]);
    }
}

static void EC_FN(depthwise_rows)(const ec_conv *conv, const ec_conv_phase *p, int64_t image,
                                  void *sums) {
  const EC_T *bias = conv->bias;
  for (int64_t g = 0; g < conv->groups; g++)
    for (int64_t o = 0; o < conv->out_channels; o++) {
      int64_t channel = g * conv->out_channels + o;
      EC_FN(depthwise_channel)(
          p, (const EC_T *)conv->input + image * conv->in_batch + g * conv->in_group,
          (const EC_T *)conv->weight + g * conv->weight_group + o * conv->weight_out,
          (EC_T *)conv->out + image * conv->out_batch + channel * conv->out_channel +
              p->out_offset,
          bias ? EC_FN(get)(bias[channel]) : (EC_G)0, sums);
    }
}

/* sums[i] += weights[i] * from[i] */
EC_CLONES static void EC_FN(add_channels)(EC_G *restrict sums, const EC_G *restrict weights,
                                          const EC_T *from, size_t count) {
  for (size_t i = 0; i < count; i++) sums[i] += weights[i] * EC_FN(get)(from[i]);
}

/* Computes one output position of all channels; `weights` by tap, then channel. */
static void EC_FN(depthwise_position)(const ec_conv *conv, const ec_conv_phase *p, const EC_T *in,
                                      const int64_t at[EC_CONV_AXES], const EC_G *weights,
                                      EC_G *sums) {
  const ec_conv_line *line = p->line;
  size_t channels = (size_t)conv->groups;
  const EC_T *bias = conv->bias;
  for (size_t i = 0; i < channels; i++) sums[i] = bias ? EC_FN(get)(bias[i]) : (EC_G)0;
  for (int64_t d = 0; d < line[0].taps; d++)
    for (int64_t h = 0; h < line[1].taps; h++)
      for (int64_t w = 0; w < line[2].taps; w++, weights += channels) {
        int64_t z = at[0] * line[0].step + line[0].first + line[0].shift[d];
        int64_t y = at[1] * line[1].step + line[1].first + line[1].shift[h];
        int64_t x = at[2] * line[2].step + line[2].first + line[2].shift[w];
        if (z < 0 || z >= line[0].in || y < 0 || y >= line[1].in || x < 0 || x >= line[2].in)
          continue;
        EC_FN(add_channels)(sums, weights, in + z * line[0].in_stride + y * line[1].in_stride +
                                               x * line[2].in_stride, channels);
      }
}

static void EC_FN(depthwise_channels)(const ec_conv *conv, const ec_conv_phase *p, int64_t image,
                                      void *scratch) {
  const ec_conv_line *line = p->line;
  int64_t channels = conv->groups, at[EC_CONV_AXES];
  EC_G *sums = scratch, *weights = sums + channels, *to = weights;
  for (int64_t d = 0; d < line[0].taps; d++)
    for (int64_t h = 0; h < line[1].taps; h++)
      for (int64_t w = 0; w < line[2].taps; w++)
        for (int64_t c = 0; c < channels; c++)
          *to++ = EC_FN(get)(((const EC_T *)conv->weight)[line[0].weight[d] + line[1].weight[h] +
                                                          line[2].weight[w] +
                                                          c * conv->weight_group]);
  const EC_T *in = (const EC_T *)conv->input + image * conv->in_batch;
  EC_T *out = (EC_T *)conv->out + image * conv->out_batch + p->out_offset;
  for (at[0] = 0; at[0] < line[0].out; at[0]++)
    for (at[1] = 0; at[1] < line[1].out; at[1]++)
      for (at[2] = 0; at[2] < line[2].out; at[2]++) {
        EC_FN(depthwise_position)(conv, p, in, at, weights, sums);
        EC_T *o = out + at[0] * line[0].out_stride + at[1] * line[1].out_stride +
                  at[2] * line[2].out_stride;
        for (size_t c = 0; c < (size_t)channels; c++) o[c] = (EC_T)EC_STORE(sums[c]);
      }
}

/* True if an element of the weight is NaN or infinite. */
static bool EC_FN(has_nonfinite)(const ec_conv *conv) {
  const ec_conv_axis *a = conv->axis;
  const EC_T *weight = conv->weight;
  const size_t count = (size_t)(conv->groups * conv->in_channels * conv->out_channels *
                                (conv->in_channels ? a[0].kernel * a[1].kernel * a[2].kernel : 0));
  uint32_t nonfinite = 0;
  for (size_t i = 0; i < count; i++) {
    const EC_G x = EC_FN(get)(weight[i]);
    nonfinite |= (uint32_t)(x - x != 0);
  }
  return nonfinite;
}

/* Returns the input position that output `o` reads with kernel element `k`, or a negative
 * number. */
static inline int64_t EC_FN(position)(const ec_conv *conv, const ec_conv_axis *a, int64_t o,
                                      int64_t k) {
  if (!conv->transposed) {
    int64_t i = o * a->stride - a->padding + k * a->dilation;
    return i < a->in ? i : -1;
  }
  int64_t from = o + a->padding - k * a->dilation;
  return from % a->stride || from / a->stride >= a->in ? -1 : from / a->stride;
}

/* Computes one output element. */
static EC_R EC_FN(reference_sum)(const ec_conv *conv, const EC_T *in, const EC_T *weight,
                                 const int64_t o[EC_CONV_AXES]) {
  const ec_conv_axis *a = conv->axis;
  EC_R sum = 0;
  if (conv->in_channels == 0) return sum; /* in this case the kernel may have any size */
  for (int64_t d = 0; d < a[0].kernel; d++)
    for (int64_t h = 0; h < a[1].kernel; h++)
      for (int64_t w = 0; w < a[2].kernel; w++) {
        int64_t z = EC_FN(position)(conv, &a[0], o[0], d);
        int64_t y = EC_FN(position)(conv, &a[1], o[1], h);
        int64_t x = EC_FN(position)(conv, &a[2], o[2], w);
        if (z < 0 || y < 0 || x < 0) continue;
        const EC_T *i = in + z * a[0].in_stride + y * a[1].in_stride + x * a[2].in_stride;
        const EC_T *f = weight + d * a[0].weight_stride + h * a[1].weight_stride +
                        w * a[2].weight_stride;
        for (int64_t c = 0; c < conv->in_channels; c++)
          sum += (EC_R)EC_FN(get)(i[c * conv->in_channel]) *
                 (EC_R)EC_FN(get)(f[c * conv->weight_in]);
      }
  return sum;
}

/* Computes all positions of one output channel of one image. */
static void EC_FN(reference_channel)(const ec_conv *conv, const EC_T *in, const EC_T *weight,
                                     EC_T *out, EC_R bias) {
  const ec_conv_axis *a = conv->axis;
  int64_t o[EC_CONV_AXES];
  for (o[0] = 0; o[0] < a[0].out; o[0]++)
    for (o[1] = 0; o[1] < a[1].out; o[1]++)
      for (o[2] = 0; o[2] < a[2].out; o[2]++) {
        EC_G sum = (EC_G)(EC_FN(reference_sum)(conv, in, weight, o) + bias);
        out[o[0] * a[0].out_stride + o[1] * a[1].out_stride + o[2] * a[2].out_stride] =
            (EC_T)EC_STORE(sum);
      }
}

static void EC_FN(reference)(const ec_conv *conv) {
  const EC_T *bias = conv->bias;
  for (int64_t n = 0; n < conv->batch; n++)
    for (int64_t g = 0; g < conv->groups; g++)
      for (int64_t i = 0; i < conv->out_channels; i++) {
        int64_t channel = g * conv->out_channels + i;
        EC_FN(reference_channel)(
            conv,
            (const EC_T *)conv->input + n * conv->in_batch + g * conv->in_group,
            (const EC_T *)conv->weight + g * conv->weight_group + i * conv->weight_out,
            (EC_T *)conv->out + n * conv->out_batch + channel * conv->out_channel,
            bias ? (EC_R)EC_FN(get)(bias[channel]) : (EC_R)0);
      }
}
