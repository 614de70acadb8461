/* The table of operators. */
#include "../libraries.h"

#include "binary.h"
#include "box.h"
#include "conv.h"
#include "gru.h"
#include "move.h"
#include "norm.h"
#include "pointwise.h"
#include "pool.h"
#include "product.h"
#include "rope.h"
#include "rows.h"
#include "svd.h"
#include "table.h"

/* The function of an operator, and the dtypes of its first tensor. */
typedef struct row {
  uint32_t (*run)(const cad_call *c);
  uint32_t dtypes;
} row;

static uint32_t run_row(const ec_operator *self, const ec_host *host, ec_host_call *call,
                        ec_backend_arg *args, size_t count) {
  const row *entry = self->user;
  const cad_call c = {host, call, args, count, entry->dtypes};
  return entry->run(&c);
}

/* Arguments that several operators share. */
#define AFFINE                                                                                     \
  "Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype"
#define LINEAR(INT, FIRST, FACTOR)                                                                 \
  "Tensor src, Tensor weight, Tensor bias, " INT " src_zero_point, " FIRST " weight_zero_point, "  \
  FACTOR " out_multiplier, " FACTOR " out_shift, " INT " out_zero_point, Tensor? offset"
#define STEPS                                                                                      \
  "Tensor input, Tensor weight, Tensor bias, int[] stride, SymInt[] padding, int[] dilation, "
#define CONV_NUMBERS                                                                               \
  STEPS "int groups, int input_zero_point, int weight_zero_point, float bias_scale, float "        \
  "out_scale, int out_zero_point, int out_multiplier, int out_shift"
#define CONV_TENSORS(STEPS, EXTRA)                                                                 \
  STEPS EXTRA "int groups, int input_zero_point, Tensor weight_zero_point, Tensor bias_scale, "    \
  "float out_scale, int out_zero_point, Tensor out_multiplier, Tensor out_shift"
#define FLOAT_CONV(N)                                                                              \
  "Tensor input, Tensor weight, Tensor bias, int[" N "] stride, SymInt[" N "] padding, int[" N     \
  "] dilation, int groups"
#define MATMUL                                                                                     \
  "Tensor X, int X_zero_point, Tensor Y, int Y_zero_point, Tensor? bias, int out_multiplier, int " \
  "out_shift, int out_zero_point, bool transposed=False"
#define BINARY(FLOAT, INT)                                                                         \
  "Tensor X, " FLOAT " X_scale, " INT " X_zero_point, Tensor Y, " FLOAT " Y_scale, " INT           \
  " Y_zero_point, float out_scale, int out_zero_point"
#define SCALAR                                                                                     \
  "Tensor X, Tensor X_scale, Tensor X_zero_point, Scalar Y, float out_scale, int out_zero_point"
#define RELU(INT)                                                                                  \
  "Tensor X, " INT " X_zero_point, int out_zero_point, " INT " out_multiplier, " INT " out_shift"
#define REQUANTIZE(FLOAT, INT)                                                                     \
  "Tensor input, " FLOAT " in_scale, " INT " in_zero_point, " FLOAT " out_scale, " INT             \
  " out_zero_point, ScalarType out_dtype"
#define MAX_POOL                                                                                   \
  "Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode"
#define IM2ROW(EXTRA, INT)                                                                         \
  "Tensor input, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride, " EXTRA INT   \
  " in_zero_point, bool channel_last=False"
#define NORM(FLOAT, INT)                                                                           \
  "Tensor X, " FLOAT " X_scale, " INT " X_zero_point, int[] normalized_shape, Tensor weight, "     \
  "Tensor bias, float eps, float output_scale, int output_zero_point"
#define SOFTMAX(FLOAT, INT)                                                                        \
  "Tensor input, Tensor mask, int dim, int mask_type, Tensor pos, " FLOAT " in_scale, " INT        \
  " in_zero_point, " FLOAT " out_scale, " INT " out_zero_point"
#define ROPE "Tensor input, Tensor sin_tensor, Tensor cos_tensor, Tensor? pos"
#define W8A32 "Tensor input, Tensor weight, float w_scale, Tensor bias, float b_scale"

#define CAD_OPERATOR(name, args, out, function, set)                                               \
  {.schema = name "(" args ", *, Tensor(a!) " out ") -> Tensor(a!)", .run = run_row,               \
   .user = &(row){cad_##function, set}},
#define CAD_SCHEMA(text, function)                                                                 \
  {.schema = text, .run = run_row, .user = &(row){function, CAD_ANY}},
static const ec_operator rows[] = {
#include "operators.def"
};

const ec_operators cadence_operators = EC_OPERATORS(rows, "Cadence");
