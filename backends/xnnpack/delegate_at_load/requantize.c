/* Nodes of integers.
 *
 * A node of floats becomes one of integers when its result is quantised, if it reads dequantised
 * values, XNNPACK has it for integers, and nothing else reads its result. A clamp between the two
 * becomes the bounds of the node; moves are made with integers. The new node is the last one; the
 * old one is removed. */
#include "delegate_at_load/requantize.h"

#include <math.h>
#include <stdio.h>

#include "call.h"
#include "delegate_at_load/forms.h"
#include "nodes/kinds.h"
#include "payload/schema.h"

/* The condition under which a node of a kind becomes one of integers. */
typedef enum ecx_rule {
  KEEPS_FLOATS,
  MOVES,   /* the same coding of result and operands */
  CLAMPS,  /* a dequantised operand, or bounds of the node before */
  TABLE,   /* a dequantised operand: XNNPACK makes a table of its 256 results */
  AVERAGES,
  SUMS,
  MULTIPLIES,
  LAYER    /* a dequantised operand and a filter of integers */
} ecx_rule;

static const uint8_t rules[ECX_KINDS] = {
  [ECX_KIND_StaticReshape] = MOVES,
  [ECX_KIND_StaticTranspose] = MOVES,
  [ECX_KIND_StaticSlice] = MOVES,
  [ECX_KIND_StaticConstantPad] = MOVES,
  [ECX_KIND_Copy] = MOVES,
  [ECX_KIND_Concatenate2] = MOVES,
  [ECX_KIND_Concatenate3] = MOVES,
  [ECX_KIND_Concatenate4] = MOVES,
  [ECX_KIND_Concatenate5] = MOVES,
  [ECX_KIND_Clamp] = CLAMPS,
  [ECX_KIND_Sigmoid] = TABLE,
  [ECX_KIND_Tanh] = TABLE,
  [ECX_KIND_Hardswish] = TABLE,
  [ECX_KIND_Gelu] = TABLE,
  [ECX_KIND_ELU] = TABLE,
  [ECX_KIND_Abs] = TABLE,
  [ECX_KIND_Negate] = TABLE,
  [ECX_KIND_Floor] = TABLE,
  [ECX_KIND_Ceiling] = TABLE,
  [ECX_KIND_GlobalAvgPooling2d] = AVERAGES,
  [ECX_KIND_Add] = SUMS,
  [ECX_KIND_Subtract] = SUMS,
  [ECX_KIND_Multiply] = MULTIPLIES,
  [ECX_KIND_Conv2d] = LAYER,
  [ECX_KIND_DepthwiseConv2d] = LAYER,
  [ECX_KIND_ConvTranspose2d] = LAYER,
  [ECX_KIND_FullyConnected] = LAYER,
};

static uint32_t operand(const ecx_draft_node *n, unsigned i) {
  return n->fields[ecx_kinds[n->kind].layout->in[i]];
}

/* ---- factors --------------------------------------------------------------------------------- */

/* XNNPACK's limits of the factor from an operand to the result. */
static const struct {
  float least, limit;
} factors[] = {
  [AVERAGES] = {0x1p-10f, 0x1p8f},
  [SUMS] = {0x1p-10f, 0x1p8f},
  [MULTIPLIES] = {0x1p-16f, 0x1p8f},
  [LAYER] = {0x1p-32f, 0x1p8f},
};

static bool fits(ecx_rule rule, float factor) {
  return factor >= factors[rule].least && factor < factors[rule].limit;
}

static float scale_of(const ecx_draft *d, uint32_t id) { return d->values[id].coding.scale; }

/* ---- layers ---------------------------------------------------------------------------------- */

enum { MAX_PRODUCTS = 65536, MAX_BIAS = 1 << 30 }; /* so that sums fit into 32 bits */

static bool fits_layer(const ecx_draft *d, const ecx_draft_node *n, float from, float to) {
  const ecx_draft_value *filter = &d->values[operand(n, 1)];
  if (filter->coding.dtype != ECX_qcint8) return false;
  const float *scales = d->data[filter->coding.scales].at;
  const size_t channels = filter->shape.dims[filter->coding.channel_dim];
  for (size_t c = 0; c < channels; c++)
    if (!fits(LAYER, from * scales[c] / to)) return false;
  return d->data[filter->constant].size / channels <= MAX_PRODUCTS;
}

/* Returns the name of a constant that depends on others with names; NULL: one has none. */
static char *name_bias(ecx_draft *d, const ecx_data *bias, const ecx_data *scales, float from) {
  enum { KEY = 320 };
  if (!bias->key || !scales->key) return NULL;
  char *key = ecx_draft_alloc(d, KEY);
  if (key) snprintf(key, KEY, "%s.bias.%s.%a", bias->key, scales->key, (double)from);
  return key;
}

/* Returns the id of a bias as int32; ECX_NONE if it is too large. */
static uint32_t add_bias(ecx_draft *d, const ecx_draft_node *n, float from) {
  const ecx_draft_value v = d->values[operand(n, 2)];
  const ecx_data bias = d->data[v.constant];
  const ecx_data scales = d->data[d->values[operand(n, 1)].coding.scales];
  const size_t count = bias.size / sizeof(float);
  int32_t *codes = ecx_draft_alloc(d, bias.size + ECX_EXTRA);
  float *products = ecx_draft_alloc(d, bias.size + ECX_EXTRA);
  for (size_t i = 0; codes && products && i < count; i++) {
    products[i] = from * ((const float *)scales.at)[i];
    const double code = nearbyint((double)((const float *)bias.at)[i] / (double)products[i]);
    if (!(fabs(code) < MAX_BIAS) || !isnormal(products[i])) return ECX_NONE;
    codes[i] = (int32_t)code;
  }
  char *key = name_bias(d, &bias, &scales, from);
  const uint32_t data = ecx_draft_data(
      d, &(ecx_data){.at = products, .size = bias.size, .key = key});
  const uint32_t id = ecx_draft_constant(
      d, &v.shape, &(ecx_data){.at = codes, .size = bias.size, .key = key});
  if (d->failed) return ECX_NONE;
  d->values[id].coding = (ecx_coding){.dtype = ECX_qcint32, .scales = data};
  return id;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Finds the operands of a layer of integers. */
static bool read_layer(ecx_draft *d, const ecx_draft_node *n, const ecx_coding *coding,
                       uint32_t *in) {
  in[0] = ecx_integers_of(d, operand(n, 0));
  in[1] = operand(n, 1);
  in[2] = ECX_NONE;
  if (in[0] == ECX_NONE || !fits_layer(d, n, scale_of(d, in[0]), coding->scale)) return false;
  if (operand(n, 2) == XNN_INVALID_VALUE_ID) return true;
  in[2] = add_bias(d, n, scale_of(d, in[0]));
  return in[2] != ECX_NONE;
}

static bool read_pair(const ecx_draft *d, const ecx_draft_node *n, ecx_rule rule,
                      const ecx_coding *coding, uint32_t *in) {
  for (unsigned i = 0; i < 2; i++) {
    in[i] = ecx_integers_of(d, operand(n, i));
    if (in[i] == ECX_NONE) return false;
  }
  const float x = scale_of(d, in[0]), y = scale_of(d, in[1]);
  if (rule == MULTIPLIES) return fits(rule, x * y / coding->scale);
  return fits(rule, x / coding->scale) && fits(rule, y / coding->scale);
}

/* Quantises what is moved. A part is not worth it if the rest is read as floats. */
static bool read_moved(ecx_delegation *b, const ecx_draft_node *n, const ecx_coding *coding,
                       uint32_t *in) {
  const unsigned count = ecx_kinds[n->kind].inputs;
  const uint32_t first = operand(n, 0);
  if (n->kind == ECX_KIND_StaticSlice && !ecx_is_read_once(b, first) &&
      ecx_integers_of(b->draft, first) == ECX_NONE)
    return false;
  for (unsigned i = 0; i < count; i++) in[i] = ecx_quantize(b, operand(n, i), coding);
  return !b->draft->failed;
}

/* Finds the operands of a node of integers. */
static bool read_operands(ecx_delegation *b, const ecx_draft_node *n, const ecx_coding *coding,
                          uint32_t *in) {
  ecx_draft *d = b->draft;
  const ecx_rule rule = (ecx_rule)rules[n->kind];
  switch (rule) {
  case KEEPS_FLOATS: return false;
  case MOVES: return read_moved(b, n, coding, in);
  case SUMS:
  case MULTIPLIES: return read_pair(d, n, rule, coding, in);
  case LAYER: return read_layer(d, n, coding, in);
  case CLAMPS:
  case TABLE:
  case AVERAGES: break;
  }
  in[0] = ecx_integers_of(d, operand(n, 0));
  return in[0] != ECX_NONE &&
         (rule != AVERAGES || fits(rule, scale_of(d, in[0]) / coding->scale));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static float to_code(float x, const ecx_coding *q) {
  const float code = nearbyintf(x / q->scale) + (float)q->zero_point;
  return code < -128 ? -128 : code > 127 ? 127 : code;
}

/* Replaces the node that computes an id by one of integers, with the bounds of a clamp after it or
 * NULL. Returns the id of its result; ECX_NONE: it stays. */
static uint32_t replace_node(ecx_delegation *b, uint32_t id, const ecx_coding *coding,
                             const ecx_draft_node *clamp) {
  ecx_draft *d = b->draft;
  uint32_t in[ECX_MAX_INPUTS];
  if (d->values[id].producer == ECX_NONE) return ECX_NONE;
  const ecx_draft_node old = d->nodes[d->values[id].producer];
  const ecx_shape shape = d->values[id].shape;
  if (!read_operands(b, &old, coding, in)) return ECX_NONE;
  const uint32_t out = ecx_draft_result(d, &shape);
  ecx_draft_node *n = ecx_draft_add_like(d, &old, in, out);
  if (d->failed) return ECX_NONE;
  d->values[out].coding = *coding;
  if (clamp) {
    n->has_bounds = true;
    n->min = clamp->min;
    n->max = clamp->max;
  }
  ecx_draft_remove_producer(d, id);
  return out;
}

/* Replaces a clamp and the node before it. */
static uint32_t replace_clamped(ecx_delegation *b, uint32_t id, const ecx_coding *coding) {
  ecx_draft *d = b->draft;
  const ecx_draft_node clamp = d->nodes[d->values[id].producer];
  const uint32_t from = operand(&clamp, 0), producer = d->values[from].producer;
  if (producer == ECX_NONE || !ecx_is_read_once(b, from) ||
      !(to_code(clamp.min, coding) < to_code(clamp.max, coding)))
    return ECX_NONE;
  const ecx_rule rule = (ecx_rule)rules[d->nodes[producer].kind];
  if ((rule != LAYER && rule != SUMS && rule != MULTIPLIES) || d->nodes[producer].has_bounds)
    return ECX_NONE;
  const uint32_t out = replace_node(b, from, coding, &clamp);
  if (out != ECX_NONE) ecx_draft_remove_producer(d, id);
  return out;
}

static uint32_t replace(ecx_delegation *b, uint32_t id, const ecx_coding *coding) {
  if (!ecx_is_read_once(b, id) || b->draft->values[id].producer == ECX_NONE) return ECX_NONE;
  const bool is_clamp = b->draft->nodes[b->draft->values[id].producer].kind == ECX_KIND_Clamp;
  const uint32_t out = is_clamp ? replace_clamped(b, id, coding) : ECX_NONE;
  return out != ECX_NONE ? out : replace_node(b, id, coding, NULL);
}

/* ---- conversions ----------------------------------------------------------------------------- */

enum { MAX_STEPS = 3 };

/* True if a value cannot be infinite or NaN, with the usual scales: computed of integers in a few
 * steps of such nodes. */
static bool is_tame(const ecx_draft *d, uint32_t id, unsigned steps) {
  const float most = 100;
  if (id >= d->value_count) return false;
  const ecx_draft_value *v = &d->values[id];
  const uint32_t integers = ecx_integers_of(d, id);
  if (integers != ECX_NONE) return scale_of(d, integers) < most;
  if (v->constant) return d->data[v->constant].size == sizeof(float);
  if (v->producer == ECX_NONE || steps == MAX_STEPS) return false;
  const ecx_draft_node *n = &d->nodes[v->producer];
  const ecx_rule rule = (ecx_rule)rules[n->kind];
  if (rule == KEEPS_FLOATS || rule == LAYER) return false;
  for (unsigned i = 0; i < ecx_kinds[n->kind].inputs; i++)
    if (!is_tame(d, operand(n, i), steps + 1)) return false;
  return true;
}

uint32_t ecx_quantize(ecx_delegation *b, uint32_t id, const ecx_coding *coding) {
  const ecx_draft *d = b->draft;
  const uint32_t integers = ecx_integers_of(d, id);
  if (d->failed || id == ECX_NONE) return ECX_NONE;
  if (integers != ECX_NONE && ecx_is_same_coding(&d->values[integers].coding, coding))
    return integers;
  const uint32_t out = replace(b, id, coding);
  if (out != ECX_NONE) return out;
  if (!is_tame(d, id, 0)) ecx_watch(b, id);
  return ecx_convert(b, id, coding);
}
