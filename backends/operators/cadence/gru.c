/* One step of a GRU with weights of int8: reset, update and new gate, each of the hidden size. */
#include "gru.h"

#include "dot.h"

enum { GATES = 3 };

/* Returns the scaled floats of an int8 argument with `count` elements. */
static uint32_t gru_weights(const cad_call *c, size_t i, const char *name, int64_t count,
                            double scale, float **out) {
  const cad_tensor *t;
  EC_BACKEND_TRY(cad_vector(c, i, name, EC_ARG_SET(EC_DTYPE_INT8), count, &t));
  EC_BACKEND_TRY(cad_floats(c, t, 0, out));
  for (int64_t k = 0; k < count; k++) (*out)[k] *= (float)scale;
  return EC_BACKEND_OK;
}

/* Returns weights * x + bias for all gates. The weights, argument `i`, precede their scale. */
static uint32_t gru_gates(const cad_call *c, size_t i, const char *name, size_t bias,
                          const cad_tensor *x, int64_t size, float **out) {
  const int64_t length = ec_arg_count(x);
  double scale, bias_scale;
  int64_t count;
  float *weights, *biases;
  EC_BACKEND_TRY(cad_scale(c, i + 1, "the weights' scale", &scale));
  EC_BACKEND_TRY(cad_scale(c, 7, "b_scale", &bias_scale));
  if (__builtin_mul_overflow(GATES * size, length, &count)) return EC_ARG_FAIL(c, "too large");
  EC_BACKEND_TRY(gru_weights(c, i, name, count, scale, &weights));
  EC_BACKEND_TRY(gru_weights(c, bias, "bias", GATES * size, bias_scale, &biases));
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, GATES * size, sizeof(float), out));
  for (int64_t k = 0; k < GATES * size; k++)
    (*out)[k] = (float)(cad_dot(weights + k * length, x->data, length) + (double)biases[k]);
  return EC_BACKEND_OK;
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* The output is [2, batch, positions, hidden]: every row is the new hidden state. */
uint32_t cad_w8a32_gru(const cad_call *c) {
  const cad_tensor *x, *hidden, *out;
  float *in, *state, *values;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "inputs", CAD_FLOAT, -1, &x));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "hidden", CAD_FLOAT, -1, &hidden));
  const int64_t size = ec_arg_count(hidden);
  if (x->rank < 2 || x->rank > 3 || x->sizes[0] != 1 || (x->rank == 3 && x->sizes[1] != 1))
    return EC_ARG_FAIL(c, "'inputs' has %u dimensions, expected one row", (unsigned)x->rank);
  if (hidden->rank < 1 || hidden->sizes[hidden->rank - 1] != size || size < 4 || size % 4)
    return EC_ARG_FAIL(c, "'hidden' has %lld elements, expected one row of a multiple of 4",
                       (long long)size);
  const int64_t sizes[] = {2, 1, x->sizes[1], size};
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 9, CAD_FLOAT, 4, sizes, &out));
  EC_BACKEND_TRY(gru_gates(c, 2, "weights_inputs", 6, x, size, &in));
  EC_BACKEND_TRY(gru_gates(c, 4, "weights_hidden", 8, hidden, size, &state));
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, size, sizeof(float), &values));
  for (int64_t k = 0; k < size; k++) {
    const float reset = sigmoid(in[k] + state[k]), update = sigmoid(in[size + k] + state[size + k]);
    const float fresh = tanhf(in[2 * size + k] + reset * state[2 * size + k]);
    values[k] = (1 - update) * fresh + update * ((const float *)hidden->data)[k];
  }
  for (int64_t row = 0; row < ec_arg_count(out) / size; row++)
    cad_store(out, row * size, 1, size, values);
  return EC_BACKEND_OK;
}
