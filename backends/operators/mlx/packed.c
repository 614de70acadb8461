/* Weights of groups: the bits of a row are a stream, the lowest first. */
#include "packed.h"

#include <math.h>

/* ---- codes ----------------------------------------------------------------------------------- */

/* 1 sign bit, 2 bits of exponent, 1 of fraction. */
static float from_e2m1(uint32_t code) {
  static const float values[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return code & 8 ? -values[code & 7] : values[code & 7];
}

/* 1 sign bit, 4 bits of exponent (bias 7), 3 of fraction; no infinities. */
static float from_e4m3(uint32_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const float sign = code & 128 ? -1.0f : 1.0f;
  if (exponent == 15 && fraction == 7) return NAN;
  if (!exponent) return sign * ldexpf((float)fraction, -9);
  return sign * ldexpf((float)(8 + fraction), exponent - 10);
}

static float from_e8m0(uint32_t code) { return code == 255 ? NAN : ldexpf(1.0f, (int)code - 127); }

static float scale_at(const emo_packed *p, int64_t at) {
  if (p->mode == EMO_AFFINE) return (float)emo_load(p->scales, at);
  const uint32_t code = ((const uint8_t *)p->scales->data)[at];
  return p->mode == EMO_NVFP4 ? from_e4m3(code) : from_e8m0(code);
}

void emo_decode(const emo_packed *p, int64_t row, int64_t first, int64_t count, float *out) {
  const int64_t size = p->w->sizes[p->w->rank - 1] * 4, groups = p->width / p->group;
  const uint8_t *bytes = (const uint8_t *)p->w->data + row * size;
  const uint32_t mask = (1u << p->bits) - 1;
  float scale = 0, bias = 0;
  for (int64_t i = 0; i < count; i++) {
    const int64_t j = first + i, bit = j * p->bits, at = bit / 8;
    const uint32_t high = at + 1 < size ? bytes[at + 1] : 0u;
    const uint32_t code = ((bytes[at] | high << 8) >> bit % 8) & mask;
    if (i == 0 || j % p->group == 0) {
      const int64_t group = row * groups + j / p->group;
      scale = scale_at(p, group);
      bias = p->biases ? (float)emo_load(p->biases, group) : 0.0f;
    }
    if (p->mode == EMO_AFFINE) out[i] = scale * (float)code + bias;
    else out[i] = scale * (p->mode == EMO_MXFP8 ? from_e4m3(code) : from_e2m1(code));
  }
}

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t read_mode(const emo_call *c, const char *name, emo_packed *out) {
  static const struct {
    const char *name;
    int64_t bits;
  } modes[] = {[EMO_AFFINE] = {"affine", 0},
               [EMO_NVFP4] = {"nvfp4", 4},
               [EMO_MXFP4] = {"mxfp4", 4},
               [EMO_MXFP8] = {"mxfp8", 8}};
  const bool is_width = (out->bits >= 2 && out->bits <= 6) || out->bits == 8;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(name, modes[i].name) != 0) continue;
    out->mode = (emo_mode)i;
    if (i == EMO_AFFINE ? is_width : out->bits == modes[i].bits) return EC_BACKEND_OK;
    return EC_ARG_FAIL(c, "%lld bits of mode '%s', expected %s", (long long)out->bits, name,
                       i == EMO_AFFINE ? "2, 3, 4, 5, 6 or 8" : i == EMO_MXFP8 ? "8" : "4");
  }
  return EC_ARG_FAIL(c, "mode '%.40s', expected 'affine', 'nvfp4', 'mxfp4' or 'mxfp8'", name);
}

/* Checks that there is a scale for each group of a row. */
static uint32_t check_scales(const emo_call *c, const emo_packed *p, const ec_backend_tensor *t,
                             const char *name) {
  const bool fits = p->mode == EMO_AFFINE ? emo_is_float(t->dtype) : t->dtype == EC_DTYPE_UINT8;
  if (!fits)
    return EC_ARG_FAIL(c, "'%s' has %s, expected %s", name, ec_backend_dtype_name(t->dtype),
                       p->mode == EMO_AFFINE ? "floats" : "uint8");
  return EC_ARG_COUNT(c, t, name, p->rows * (p->width / p->group));
}

uint32_t emo_read_packed(const emo_call *c, const emo_packed_args *at, emo_packed *out) {
  *out = (emo_packed){.group = c->args[at->group_size].as.i, .bits = c->args[at->bits].as.i};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, at->w, "w", EC_ARG_SET(EC_DTYPE_UINT32), -1, &out->w));
  EC_BACKEND_TRY(emo_tensor(c, at->scales, "scales", &out->scales));
  EC_BACKEND_TRY(emo_optional(c, at->biases, "biases", &out->biases));
  EC_BACKEND_TRY(read_mode(c, c->args[at->mode].as.string.data, out));
  if (out->w->rank < 1) return EC_ARG_FAIL(c, "'w' has no dimensions");
  const int64_t words = out->w->sizes[out->w->rank - 1];
  out->width = words * 32 / out->bits;
  out->rows = emo_product(out->w->sizes, 0, out->w->rank - 1u);
  if (out->group < 1 || out->width % out->group != 0 || words * 32 % out->bits != 0)
    return EC_ARG_FAIL(c, "groups of %lld in a row of %lld words of %lld-bit codes",
                       (long long)out->group, (long long)words, (long long)out->bits);
  EC_BACKEND_TRY(check_scales(c, out, out->scales, "scales"));
  if (out->mode == EMO_AFFINE && !out->biases) return EC_ARG_FAIL(c, "'biases' is None");
  if (out->mode != EMO_AFFINE) out->biases = NULL;
  return out->biases ? check_scales(c, out, out->biases, "biases") : EC_BACKEND_OK;
}
