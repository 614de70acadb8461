/* The sections of a container: modules, sequence, resources, constants. */
#include "vgf.h"

#include <string.h>

#include "core/checked.h"
#include "spirv.h"
/* Last, because it redefines the macros of vgf.def. */
#include "format/schema.h"

enum { SPIRV_CODE = 1, GRAPH_SEGMENT = 1 };

static const ec_fb_schema *const union_Code[SPIRV_CODE + 1];

#include "vgf.def"

static const ec_fb_schema *const union_Code[SPIRV_CODE + 1] = {[SPIRV_CODE] = &schema_Spirv};

/* Field numbers of vgf.def. */
enum { MODULES = 0, CODE = 4, WORDS = 0, SEGMENTS = 0, TYPE = 0, MODULE_INDEX = 2, CONSTANTS = 6 };

enum {
  NEWEST_MINOR = 5, /* 0.5 */
  VERSION_AT = 8,
  SECTIONS_AT = 16,
  SECTIONS = 4,
  HEADER = 128,
  ROWS_AT = 16,
  ROW = 24,
  MIN_BYTES = 8
};

typedef struct container {
  ect_graph *g;
  ec_bytes sections[SECTIONS];
  ec_fb_vec constants; /* of the segment: rows of the section of constants */
} container;

static uint32_t read_header(ect_graph *g, const uint8_t *data, size_t size, container *out) {
  *out = (container){.g = g};
  if (size < HEADER || memcmp(data, "VGF1", 4) != 0)
    return EC_BACKEND_FAIL(
        &g->c, EC_BACKEND_INVALID_PROGRAM,
        "payload: %zu bytes without the header of a VGF container, expected 'VGF1'", size);
  if (data[VERSION_AT] || data[VERSION_AT + 1] > NEWEST_MINOR)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INCOMPATIBLE,
                           "payload: VGF version %u.%u, expected at most 0.%d", data[VERSION_AT],
                           data[VERSION_AT + 1], NEWEST_MINOR);
  for (size_t i = 0; i < SECTIONS; i++) {
    const uint64_t offset = ec_read_u64(data + SECTIONS_AT + 16 * i);
    const uint64_t bytes = ec_read_u64(data + SECTIONS_AT + 16 * i + 8);
    if (!ec_in_range(offset, bytes, size))
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                             "payload: section %zu is not within %zu bytes", i, size);
    out->sections[i] = (ec_bytes){data + offset, (size_t)bytes};
  }
  return EC_BACKEND_OK;
}

static uint32_t open_table(const container *k, size_t section, const ec_fb_schema *schema,
                           const char *what, ec_fb_table *out) {
  const ec_bytes bytes = k->sections[section];
  ec_error err = {0};
  *out = NULL;
  if (bytes.size < MIN_BYTES)
    return EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_INVALID_PROGRAM, "%s: %zu bytes", what, bytes.size);
  const ec_status status = ec_fb_verify(bytes.data, bytes.size, schema, what, &err);
  if (status != EC_OK) return EC_BACKEND_FAIL(&k->g->c, (uint32_t)status, "%s", err.message);
  *out = ec_fb_root(bytes.data);
  return EC_BACKEND_OK;
}

/* Finds the bytes of a constant of the graph. */
static uint32_t find_constant(void *user, uint32_t index, const uint8_t **data, size_t *size) {
  const container *k = user;
  const ec_bytes all = k->sections[SECTIONS - 1];
  const uint64_t row = index < k->constants.count ? (uint32_t)ec_fb_vec_i32(k->constants, index)
                                                  : UINT32_MAX;
  const uint64_t count = all.size < ROWS_AT ? 0 : ec_read_u64(all.data + 8);
  if (all.size < ROWS_AT || memcmp(all.data, "CONST00", 8) != 0 || row >= count ||
      count > (all.size - ROWS_AT) / ROW)
    return EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "the graph's constant %u is not in the section of constants",
                           (unsigned)index);
  const uint8_t *at = all.data + ROWS_AT + ROW * row;
  const uint64_t first = ROWS_AT + ROW * count, bytes = ec_read_u64(at + 8);
  const uint64_t offset = ec_read_u64(at + 16);
  if ((int32_t)ec_read_u32(at + 4) >= 0)
    return EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_NOT_SUPPORTED, "constant %u is sparse",
                           (unsigned)index);
  if (!ec_in_range(offset, bytes, all.size - first))
    return EC_BACKEND_FAIL(&k->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "constant %u is not within its section", (unsigned)index);
  *data = all.data + first + offset;
  *size = (size_t)bytes;
  return EC_BACKEND_OK;
}

uint32_t ets_read_vgf(ect_graph *g, const ec_backend_init *what) {
  container k;
  ec_fb_table modules, sequence;
  EC_BACKEND_TRY(read_header(g, what->payload, what->payload_size, &k));
  EC_BACKEND_TRY(open_table(&k, 0, &schema_ModuleTable, "modules", &modules));
  EC_BACKEND_TRY(open_table(&k, 1, &schema_SequenceTable, "model sequence", &sequence));
  const ec_fb_vec all = ec_fb_vector(modules, MODULES);
  const ec_fb_vec segments = ec_fb_vector(sequence, SEGMENTS);
  if (segments.count != 1)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "%u segments, expected one graph",
                           (unsigned)segments.count);
  const ec_fb_table segment = ec_fb_vec_table(segments, 0);
  const uint32_t module = ec_fb_u32(segment, MODULE_INDEX);
  const ec_fb_table code =
      module < all.count ? ec_fb_union(ec_fb_vec_table(all, module), CODE, SPIRV_CODE) : NULL;
  if (!code || ec_fb_u8(segment, TYPE) != GRAPH_SEGMENT)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED, "the segment is not a graph in SPIR-V");
  const ec_fb_vec words = ec_fb_vector(code, WORDS);
  k.constants = ec_fb_vector(segment, CONSTANTS);
  return ets_read_spirv(g, words.items, words.count, find_constant, &k);
}
