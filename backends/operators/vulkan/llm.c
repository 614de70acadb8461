/* Operators that patterns of language models become. */
#include <math.h>
#include <string.h>

#include "operators.h"

/* ---- normalisation --------------------------------------------------------------------------- */

uint32_t evo_rms_norm(const evo_call *c) {
  const ec_backend_tensor *x, *weight;
  float *out;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_FLOAT32, 1, &x));
  EC_BACKEND_TRY(evo_tensor(c, 1, EC_DTYPE_FLOAT32, 0, &weight));
  const int64_t width = x->sizes[x->rank - 1];
  EC_BACKEND_TRY(evo_check_least(c, weight, width, "weight"));
  EC_BACKEND_TRY(evo_output(c, 3, EC_DTYPE_FLOAT32, x->rank, x->sizes, &out));
  const float *from = x->data, *scale = weight->data;
  for (int64_t row = 0; row < evo_rows(x); row++, from += width, out += width) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++) sum += (double)from[i] * (double)from[i];
    const float inverse = (float)(1.0 / sqrt(sum / (double)width + c->args[2].as.d));
    for (int64_t i = 0; i < width; i++) out[i] = from[i] * inverse * scale[i];
  }
  return EC_BACKEND_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attention {
  const float *q, *k, *v, *mask;
  int64_t heads, queries, keys, width, value_width;
  int64_t mask_steps[4]; /* of batch, head, query, key */
  float scale;
  float *out, *scores; /* scores: `keys` for each row */
} attention;

static void run_attention(void *user, size_t begin, size_t end) {
  const attention *a = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int64_t head = row / a->queries, i = row % a->queries;
    const float *q = a->q + row * a->width, *k = a->k + head * a->keys * a->width;
    const int64_t at = head / a->heads * a->mask_steps[0] + head % a->heads * a->mask_steps[1] +
                       i * a->mask_steps[2];
    float *scores = a->scores + row * a->keys, *out = a->out + row * a->value_width;
    float most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->keys; j++, k += a->width) {
      float dot = 0;
      for (int64_t d = 0; d < a->width; d++) dot += q[d] * k[d];
      scores[j] = dot * a->scale + (a->mask ? a->mask[at + j * a->mask_steps[3]] : 0.0f);
      if (!(scores[j] <= most)) most = scores[j];
    }
    memset(out, 0, (size_t)a->value_width * sizeof *out);
    for (int64_t j = 0; j < a->keys; j++) sum += scores[j] = expf(scores[j] - most);
    for (int64_t j = 0; j < a->keys; j++) {
      const float *v = a->v + (head * a->keys + j) * a->value_width;
      for (int64_t d = 0; d < a->value_width; d++) out[d] += scores[j] / sum * v[d];
    }
  }
}

/* Finds the steps of a mask that broadcasts to [batch, heads, queries, keys]. */
static uint32_t read_mask(const evo_call *c, int64_t batch, attention *a) {
  const ec_backend_tensor *mask;
  const int64_t sizes[] = {batch, a->heads, a->queries, a->keys};
  EC_BACKEND_TRY(evo_optional(c, 3, EC_DTYPE_FLOAT32, &mask));
  if (!mask) return EC_BACKEND_OK;
  if (mask->rank > 4) return EC_ARG_FAIL(c, "'attn_mask' has %u dimensions", (unsigned)mask->rank);
  int64_t step = 1;
  for (size_t d = 4, k = mask->rank; k-- > 0;) {
    d--;
    if (mask->sizes[k] != 1 && mask->sizes[k] != sizes[d])
      return EC_ARG_FAIL(c, "'attn_mask' has size %lld, expected %lld", (long long)mask->sizes[k],
                         (long long)sizes[d]);
    a->mask_steps[d] = mask->sizes[k] == 1 ? 0 : step;
    step *= mask->sizes[k];
  }
  a->mask = mask->data;
  return EC_BACKEND_OK;
}

static bool same_batch(const ec_backend_tensor *a, const ec_backend_tensor *b) {
  return a->rank == b->rank &&
         memcmp(a->sizes, b->sizes, (a->rank - 2u) * sizeof *a->sizes) == 0;
}

uint32_t evo_sdpa(const evo_call *c) {
  const ec_backend_tensor *q, *k, *v;
  int64_t sizes[16];
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_FLOAT32, 3, &q));
  EC_BACKEND_TRY(evo_tensor(c, 1, EC_DTYPE_FLOAT32, 3, &k));
  EC_BACKEND_TRY(evo_tensor(c, 2, EC_DTYPE_FLOAT32, 3, &v));
  const size_t r = q->rank;
  if (r > 4 || !same_batch(q, k) || !same_batch(k, v) || q->sizes[r - 1] != k->sizes[r - 1] ||
      k->sizes[r - 2] != v->sizes[r - 2])
    return EC_ARG_FAIL(c, "the shapes of q, k and v do not fit");
  attention a = {.q = q->data, .k = k->data, .v = v->data, .heads = q->sizes[r - 3],
                 .queries = q->sizes[r - 2], .keys = k->sizes[r - 2], .width = q->sizes[r - 1],
                 .value_width = v->sizes[r - 1]};
  a.scale = c->args[4].kind == EC_BACKEND_NONE ? (float)(1.0 / sqrt((double)a.width))
                                               : (float)c->args[4].as.d;
  EC_BACKEND_TRY(read_mask(c, r == 4 ? q->sizes[0] : 1, &a));
  memcpy(sizes, q->sizes, r * sizeof *sizes);
  sizes[r - 1] = a.value_width;
  EC_BACKEND_TRY(evo_output(c, 5, EC_DTYPE_FLOAT32, r, sizes, &a.out));
  const size_t rows = (size_t)evo_rows(q);
  size_t count;
  if (__builtin_mul_overflow(rows, (size_t)a.keys, &count)) return EC_ARG_FAIL(c, "too many keys");
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, count, sizeof *a.scores, &a.scores));
  c->host->parallel_for(c->call, rows, 4, run_attention, &a);
  return EC_BACKEND_OK;
}

/* ---- rotary embeddings ----------------------------------------------------------------------- */

/* Rotates pairs of x [batch, seq, heads, dim]. cos and sin have `step` elements for each row of
 * heads, or for each head. */
static uint32_t rotate_pairs(const evo_call *c, size_t in, size_t out_at) {
  const ec_backend_tensor *x, *cosines, *sines;
  float *out;
  EC_BACKEND_TRY(evo_tensor(c, in, EC_DTYPE_FLOAT32, 4, &x));
  EC_BACKEND_TRY(evo_tensor(c, 2, EC_DTYPE_FLOAT32, 2, &cosines));
  EC_BACKEND_TRY(evo_tensor(c, 3, EC_DTYPE_FLOAT32, 2, &sines));
  const int64_t seq = x->sizes[1], heads = x->sizes[2], half = x->sizes[3] / 2;
  const bool by_head = cosines->rank == 3;
  const int64_t wanted = seq * (by_head ? heads : 1) * half;
  if (x->rank != 4 || x->sizes[3] % 2 || ec_arg_count(cosines) != wanted ||
      ec_arg_count(sines) != wanted)
    return EC_ARG_FAIL(c, "%lld cosines and %lld sines, expected %lld",
                       (long long)ec_arg_count(cosines), (long long)ec_arg_count(sines),
                       (long long)wanted);
  EC_BACKEND_TRY(evo_output(c, out_at, EC_DTYPE_FLOAT32, 4, x->sizes, &out));
  const float *from = x->data;
  for (int64_t row = 0; row < evo_rows(x); row++, from += 2 * half, out += 2 * half) {
    const int64_t at = (by_head ? row % (seq * heads) : row / heads % seq) * half;
    const float *cs = (const float *)cosines->data + at, *sn = (const float *)sines->data + at;
    for (int64_t i = 0; i < half; i++) {
      out[2 * i] = from[2 * i] * cs[i] - from[2 * i + 1] * sn[i];
      out[2 * i + 1] = from[2 * i] * sn[i] + from[2 * i + 1] * cs[i];
    }
  }
  return EC_BACKEND_OK;
}

uint32_t evo_rotary(const evo_call *c) {
  EC_BACKEND_TRY(rotate_pairs(c, 0, 4));
  return rotate_pairs(c, 1, 5);
}

/* Rotates the halves of the first elements of x [batch, seq, heads, dim]. */
static uint32_t rotate_halves(const evo_call *c, size_t in, size_t out_at) {
  const ec_backend_tensor *x, *cosines, *sines;
  float *out;
  EC_BACKEND_TRY(evo_tensor(c, in, EC_DTYPE_FLOAT32, 4, &x));
  EC_BACKEND_TRY(evo_tensor(c, 2, EC_DTYPE_FLOAT32, 2, &cosines));
  EC_BACKEND_TRY(evo_tensor(c, 3, EC_DTYPE_FLOAT32, 2, &sines));
  const int64_t seq = x->sizes[1], heads = x->sizes[2], dim = x->sizes[3];
  const int64_t turned = cosines->sizes[1], start = c->args[4].as.i, rows = cosines->sizes[0];
  if (x->rank != 4 || cosines->rank != 2 || turned > dim || turned % 2 || start < 0 ||
      start > rows || seq > rows - start || ec_arg_count(sines) != ec_arg_count(cosines))
    return EC_ARG_FAIL(c, "%lld rows of %lld cosines, start_pos %lld and %lld positions do not fit",
                       (long long)rows, (long long)turned, (long long)start, (long long)seq);
  EC_BACKEND_TRY(evo_output(c, out_at, EC_DTYPE_FLOAT32, 4, x->sizes, &out));
  const float *from = x->data;
  for (int64_t row = 0; row < evo_rows(x); row++, from += dim, out += dim) {
    const int64_t at = (start + row / heads % seq) * turned, half = turned / 2;
    const float *cs = (const float *)cosines->data + at, *sn = (const float *)sines->data + at;
    for (int64_t i = 0; i < dim; i++) {
      const float other = i < half ? -from[i + half] : i < turned ? from[i - half] : 0.0f;
      out[i] = i < turned ? from[i] * cs[i] + other * sn[i] : from[i];
    }
  }
  return EC_BACKEND_OK;
}

uint32_t evo_rotary_hf(const evo_call *c) {
  EC_BACKEND_TRY(rotate_halves(c, 0, 5));
  return rotate_halves(c, 1, 6);
}

uint32_t evo_rotary_interleaved(const evo_call *c) {
  const ec_backend_tensor *x, *pairs;
  float *out;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_FLOAT32, 3, &x));
  EC_BACKEND_TRY(evo_tensor(c, 1, EC_DTYPE_FLOAT32, 1, &pairs));
  const int64_t plane = x->sizes[1] * x->sizes[2];
  if (x->rank != 3 || x->sizes[2] % 2 || ec_arg_count(pairs) != plane)
    return EC_ARG_FAIL(c, "%lld frequencies, expected %lld", (long long)ec_arg_count(pairs),
                       (long long)plane);
  EC_BACKEND_TRY(evo_output(c, 2, EC_DTYPE_FLOAT32, 3, x->sizes, &out));
  const float *from = x->data, *turn = pairs->data;
  for (int64_t i = 0; i < ec_arg_count(x); i += 2) {
    const float cs = turn[i % plane], sn = turn[i % plane + 1];
    out[i] = from[i] * cs - from[i + 1] * sn;
    out[i + 1] = from[i] * sn + from[i + 1] * cs;
  }
  return EC_BACKEND_OK;
}
