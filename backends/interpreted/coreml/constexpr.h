/* Constants that the program stores quantised, palettised or sparse: constexpr_... operators. */
#ifndef ECM_CONSTEXPR_H
#define ECM_CONSTEXPR_H

#include "node.h"

bool ecm_is_constexpr(ect_text type);
/* Computes the one result of a node. */
uint32_t ecm_constexpr(ecm_node *n, ect_operand *out);
/* Computes a mask and the elements where it is 1. */
uint32_t ecm_constexpr_sparse(ecm_node *n);

#endif
