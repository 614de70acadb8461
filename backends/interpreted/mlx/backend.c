/* MLXBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "read.h"
#include "reader.h"
#include "translate.h"

static const ect_format format = {.read = emx_read,
                                  .translate = emx_translate,
                                  .name = emx_name_node,
                                  .note = emx_note,
                                  .has_exact_data = true,
                                  .infers_types = true};

const ec_backend emx_backend = ECT_BACKEND("MLXBackend", &format);
