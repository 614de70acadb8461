/* The backends and operators that ec-run is built with. */
#ifndef EC_TOOLS_PLUGINS_H
#define EC_TOOLS_PLUGINS_H

#include "executorch_c/executorch_c.h"

/* Registers them. Returns a status with a message. */
ecr_status plugins_register(ecr_error *error);

#endif
