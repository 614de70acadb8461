/* TOSABackend and VgfBackend: the graph of a payload as a program of the runtime, on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "payload.h"
#include "translate.h"
#include "vgf.h"

static const ect_format tosa = {.read = ets_read_payload, .translate = ets_translate,
                                .name = ets_name};
static const ect_format vgf = {.read = ets_read_vgf, .translate = ets_translate, .name = ets_name};

const ec_backend ets_backend = ECT_BACKEND("TOSABackend", &tosa);
const ec_backend ets_vgf_backend = ECT_BACKEND("VgfBackend", &vgf);
