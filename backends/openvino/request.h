/* The inputs of a request, and its run. */
#ifndef ECO_REQUEST_H
#define ECO_REQUEST_H

#include "engine.h"

/* Runs one of the delegate's requests with the arguments of a call. */
uint32_t eco_request_run(const ec_backend_call *c, const eco_delegate *d, eco_request *request,
                         ec_backend_arg *args);

#endif
