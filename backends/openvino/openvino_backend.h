/* "OpenvinoBackend": runs models that OpenVINO has exported, on OpenVINO. */
#ifndef OPENVINO_BACKEND_H
#define OPENVINO_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend eco_backend;

#endif
