/* Windows of a pooling. */
#ifndef ECX_SHAPES_WINDOW_H
#define ECX_SHAPES_WINDOW_H

#include "graph.h"

/* True where the paddings of a MaxPooling2d become a separate node. XNNPACK's pooling pads nothing:
 * it takes an element inside the image in place of one outside, which is an address after the image
 * where no element under the window is inside. */
bool ecx_pads_apart(const ecx_node *n);

#endif
