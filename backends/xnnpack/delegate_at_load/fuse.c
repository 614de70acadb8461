/* Nodes that become one. */
#include "delegate_at_load/fuse.h"

#include <string.h>

#include "payload/schema.h"

static const ecx_draft_node *producer_of(const ecx_draft *d, uint32_t id, uint8_t kind) {
  if (d->failed || id == ECX_NONE || d->values[id].producer == ECX_NONE) return NULL;
  const ecx_draft_node *n = &d->nodes[d->values[id].producer];
  return n->kind == kind ? n : NULL;
}

static bool is_number(const ecx_draft *d, uint32_t id, float expected) {
  if (id == ECX_NONE || !d->values[id].constant) return false;
  const ecx_data *data = &d->data[d->values[id].constant];
  float number;
  if (data->size != sizeof number) return false;
  memcpy(&number, data->at, sizeof number);
  return number == expected;
}

/* Returns the value to which a node adds 3; ECX_NONE: it does not. */
static uint32_t match_sum(const ecx_draft *d, uint32_t id) {
  const ecx_draft_node *n = producer_of(d, id, ECX_KIND_Add);
  if (n && is_number(d, n->fields[1], 3)) return n->fields[0];
  return n && is_number(d, n->fields[0], 3) ? n->fields[1] : ECX_NONE;
}

/* Returns x if the value is clamp(x + 3, 0, 6). */
static uint32_t match_clamp(const ecx_draft *d, uint32_t id) {
  const ecx_draft_node *n = producer_of(d, id, ECX_KIND_Clamp);
  return n && n->min == 0 && n->max == 6 ? match_sum(d, n->fields[0]) : ECX_NONE;
}

uint32_t ecx_match_hardswish(const ecx_draft *d, uint32_t dividend, uint32_t divisor) {
  const ecx_draft_node *n = d->failed ? NULL : producer_of(d, dividend, ECX_KIND_Multiply);
  if (!n || !is_number(d, divisor, 6)) return ECX_NONE;
  for (unsigned i = 0; i < 2; i++) {
    const uint32_t x = n->fields[i];
    if (match_clamp(d, n->fields[1 - i]) == x) return x;
  }
  return ECX_NONE;
}

/* Measured (tests/runtime/test_delegated_nan.py). Depthwise convolutions of the usual square
 * filters and other convolutions keep NaN. */
bool ecx_loses_nan(const ecx_draft *d, uint32_t id) {
  if (d->failed || id == ECX_NONE || d->values[id].producer == ECX_NONE) return false;
  const ecx_draft_node *n = &d->nodes[d->values[id].producer];
  const uint32_t height = n->fields[ECX_Conv_kernel_height];
  const uint32_t width = n->fields[ECX_Conv_kernel_width];
  switch (n->kind) {
  case ECX_KIND_FullyConnected:
  case ECX_KIND_ConvTranspose2d:
  case ECX_KIND_AvgPooling2d: return true;
  case ECX_KIND_DepthwiseConv2d: return height != width || height < 3;
  default: return false;
  }
}

bool ecx_fails_clamped(const ecx_draft *d, uint32_t id, float min) {
#ifdef EXECUTORCH_C_CORRECTIONS
  const bool is_corrected = true; /* a clamp leaves the paddings */
#else
  const bool is_corrected = false;
#endif
  return !is_corrected && min > 0 && (producer_of(d, id, ECX_KIND_Conv2d) ||
                     producer_of(d, id, ECX_KIND_DepthwiseConv2d));
}

static float clamp(float x, float min, float max) { return x < min ? min : x > max ? max : x; }

uint32_t ecx_merge_clamps(const ecx_draft *d, uint32_t id, float *min, float *max) {
  const ecx_draft_node *n = d->failed ? NULL : producer_of(d, id, ECX_KIND_Clamp);
  if (!n) return id;
  const float low = clamp(n->min, *min, *max), high = clamp(n->max, *min, *max);
  *min = low;
  *max = high;
  return n->fields[0];
}
