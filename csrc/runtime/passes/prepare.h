/* Preparation of products: instructions that keep packed weights between calls. */
#ifndef EC_RUNTIME_PASSES_PREPARE_H
#define EC_RUNTIME_PASSES_PREPARE_H

#include "runtime/passes/pass.h"

/* Gives products and convolutions with constant arguments a place for packed weights. */
ec_status ec_prepare_products(ec_pass_context *p, ec_error *err);

/* Frees the packed weights. */
void ec_free_products(ec_method *m);

#endif
