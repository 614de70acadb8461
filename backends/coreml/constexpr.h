/* Constants that the program stores quantised. */
#ifndef ECM_CONSTEXPR_H
#define ECM_CONSTEXPR_H

#include "node.h"

/* Computes (data - zero_point) * scale, along an axis or with one scale. */
uint32_t ecm_affine_dequantize(ecm_node *n, ecm_value *out);

#endif
