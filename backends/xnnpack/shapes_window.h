/* Windows of a pooling. */
#ifndef ECX_SHAPES_WINDOW_H
#define ECX_SHAPES_WINDOW_H

#include "graph.h"

/* True if the padding of a MaxPooling2d becomes a separate node. XNNPACK's pooling does not pad: it
 * replaces an element outside the image by one inside, and reads an address after the image if no
 * element under the window is inside. */
bool ecx_pads_apart(const ecx_node *n);

/* True if the strides of a MaxPooling2d become a separate node: XNNPACK refuses windows of one
 * element, and strides larger than the window. Its padding is then apart, too. */
bool ecx_strides_apart(const ecx_node *n);

#endif
