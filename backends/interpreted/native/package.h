/* Native packages (.ptn): methods that share constants and state, as one program. */
#ifndef ECN_PACKAGE_H
#define ECN_PACKAGE_H

#include "../graph.h"

/* Opens a package: open_package of the backend, whose `user` is the format of its graphs. */
uint32_t ecn_open_package(const ec_backend *self, const ec_host *host, ec_host_call *call,
                          const void *data, size_t size, ec_backend_package *out);

#endif
