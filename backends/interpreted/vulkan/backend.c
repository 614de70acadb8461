/* VulkanBackend: the graph of a payload as a program that the runtime runs on the CPU. */
#include "../backends.h"
#include "../delegate.h"
#include "call.h"
#include "payload.h"

static const ect_format format = {
    .read = ecv_read_payload,
    .translate = ecv_translate,
    .name = ecv_name_node,
    .note = ecv_note_storage,
    .lost_outputs =
        ": VulkanPartitioner without alias_buffer_mutations=True lowers the new value of "
        "a mutated buffer to an output that nothing stores, so that its state is lost"};

const ec_backend ecv_backend = ECT_BACKEND("VulkanBackend", &format);
