/* CoreMLBackend: the MIL program of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "read.h"
#include "translate.h"

static const ect_format format = {.read = ecm_read_payload, .translate = ecm_translate,
                                  .name = ecm_name_node, .note = ecm_note_stored};

const ec_backend ecm_backend = ECT_BACKEND("CoreMLBackend", &format);
