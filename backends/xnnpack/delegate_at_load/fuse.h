/* Nodes that become one. */
#ifndef ECX_DELEGATE_AT_LOAD_FUSE_H
#define ECX_DELEGATE_AT_LOAD_FUSE_H

#include "delegate_at_load/draft.h"

/* Returns x if dividend / divisor is x * clamp(x + 3, 0, 6) / 6, as the exporter decomposes
 * hardswish; else ECX_NONE. Nodes that nothing else reads are dead then. */
uint32_t ecx_match_hardswish(const ecx_draft *d, uint32_t dividend, uint32_t divisor);

/* True for the result of a node that loses NaN if XNNPACK fuses a clamp into it. */
bool ecx_loses_nan(const ecx_draft *d, uint32_t id);

/* True for the result of a convolution into which an XNNPACK without our corrections cannot fuse a
 * clamp with a positive lower bound: it reports a lack of memory. */
bool ecx_fails_clamped(const ecx_draft *d, uint32_t id, float min);

/* Returns the value that a clamp of `id` needs to read: of a clamp, what that one reads. The bounds
 * become those of both. */
uint32_t ecx_merge_clamps(const ecx_draft *d, uint32_t id, float *min, float *max);

#endif
