/* Windows of convolutions and poolings. */
#ifndef ECX_NODES_SHAPES_WINDOW_H
#define ECX_NODES_SHAPES_WINDOW_H

#include "nodes/graph.h"

/* True if the padding of a MaxPooling2d becomes a separate node. XNNPACK's pooling does not pad: it
 * replaces an element outside the image by one inside, and reads an address after the image if no
 * element under the window is inside. */
bool ecx_pads_apart(const ecx_node *n);

/* True if the strides of a MaxPooling2d become a separate node: XNNPACK refuses windows of one
 * element, and strides larger than the window. Its padding is then apart, too. */
bool ecx_strides_apart(const ecx_node *n);

/* Padding of a window, and the node's flags without those that it replaces. */
typedef struct ecx_padding {
  uint32_t top, right, bottom, left, flags;
} ecx_padding;

/* Returns the padding of a Conv2d, DepthwiseConv2d, AvgPooling2d or MaxPooling2d for the input's
 * current shape: XNNPACK refuses padding to the same size with a stride larger than the window. */
ecx_padding ecx_padding_of(const ecx_graph *g, const ecx_node *n);

/* True if a runtime of the graph is for one shape only: a padding depends on it. */
bool ecx_is_rigid(const ecx_graph *g);

#endif
