/* NativeBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "call.h"
#include "method.h"
#include "package.h"
#include "payload.h"

static const ect_format format = {
    .read = ecn_read_payload,
    .translate = ecn_translate,
    .name = ecn_name_node,
    .note = ecn_note_bounds,
    .lost_data = ": NativePartitioner stores constants in a .ptd file (native_weights) unless "
                 "external_constants_tag=None"};

const ec_backend ecn_backend = {ECT_MEMBERS("NativeBackend", &format),
                                .open_package = ecn_open_package};
