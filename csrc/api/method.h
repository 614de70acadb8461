/* The method behind the interface, for tools of this tree. */
#ifndef EC_API_METHOD_H
#define EC_API_METHOD_H

#include "executorch_c/executorch_c.h"
#include "runtime/method.h"

ec_method *ecr_method_inside(ecr_method *method);

#endif
