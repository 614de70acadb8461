/* Load-time delegation: runs of kernel calls handed to a backend. */
#ifndef EC_RUNTIME_PASSES_DELEGATE_H
#define EC_RUNTIME_PASSES_DELEGATE_H

#include "runtime/native.h"

/* Returns NotFound if claims need backends that the caller has not registered yet (the option
 * backends_unknown): not for methods with little work. Call it before the costly stages. */
ec_status ec_claim_check_backends(const ec_method *m, ec_error *err);

/* Hands runs of kernel calls to the backend that can take them, in a method with folded constants.
 * What it refuses stays as it is. */
ec_status ec_claim_calls(ec_method *m, ec_error *err);

#endif
