/* Operations that are not one row. */
#ifndef ECM_SPECIAL_H
#define ECM_SPECIAL_H

#include "node.h"

typedef uint32_t (*ecm_special)(ecm_node *n);

uint32_t ecm_call_conv(ecm_node *n);
uint32_t ecm_call_max_pool(ecm_node *n);
uint32_t ecm_call_view(ecm_node *n);
uint32_t ecm_call_layer_norm(ecm_node *n);
uint32_t ecm_call_matmul(ecm_node *n);
uint32_t ecm_call_gelu(ecm_node *n);
uint32_t ecm_call_quantize(ecm_node *n);
uint32_t ecm_call_dequantize(ecm_node *n);
/* Defines its results, which are several. */
uint32_t ecm_call_split(ecm_node *n);

#endif
