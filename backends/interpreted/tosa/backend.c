/* TOSABackend and VgfBackend: the graph of a payload as a program of the runtime, on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "payload.h"
#include "translate.h"
#include "vgf.h"

static const ect_format tosa = {ECT_GRAPH_FORMAT(ets_read_payload, &ets_rules)};
static const ect_format vgf = {ECT_GRAPH_FORMAT(ets_read_vgf, &ets_rules)};

const ec_backend ets_backend = ECT_BACKEND("TOSABackend", &tosa);
const ec_backend ets_vgf_backend = ECT_BACKEND("VgfBackend", &vgf);
