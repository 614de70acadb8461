/* The targets: programs, tensor data, bundled programs, payloads of backends. */
#include "testing/fuzz_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/bpte.h"
#include "format/ptd.h"
#include "format/pte.h"
#include "../../backends/interpreted/mlx/payload.h"
#include "../../backends/interpreted/native/payload.h"
#include "../../backends/interpreted/tosa/payload.h"
#include "../../backends/interpreted/vulkan/payload.h"
#ifdef EC_FUZZ_XNNPACK
#include "../../backends/xnnpack/payload/payload.h"
#endif

/* ---- sizes in headers -------------------------------------------------------------------- */

static void add_u64(uint8_t *at, uint64_t by) {
  const uint64_t value = ec_read_u64(at) + by;
  memcpy(at, &value, sizeof value);
}

/* program_size, and segment_base in the next eight bytes. */
static void grow_pte(uint8_t *data, const ec_region *region, size_t by) {
  if (region->sizes_at == SIZE_MAX) return;
  add_u64(data + region->sizes_at, by);
  if (ec_read_u64(data + region->sizes_at + 8)) add_u64(data + region->sizes_at + 8, by);
}

static size_t pte_regions(ec_bytes file, ec_region *out) {
  enum { PROGRAM_SIZE_AT = 16 };
  ec_pte pte;
  if (ec_pte_open(&pte, file.data, file.size, EC_VERIFY_MINIMAL, NULL) != EC_OK) return 0;
  out[0] = (ec_region){0, (size_t)pte.program_size, ec_pte_schema(),
                       pte.header_length ? PROGRAM_SIZE_AT : SIZE_MAX, grow_pte};
  return 1;
}

static int run_pte(ec_bytes file, ec_bytes program, ec_random r, ec_fuzz_counts *counts) {
  (void)program;
  return ec_fuzz_run(file, (ec_bytes){NULL, 0}, r, counts);
}

/* ---- tensor data ------------------------------------------------------------------------- */

static size_t ptd_regions(ec_bytes file, ec_region *out) {
  enum { BUFFER_SIZE_AT = 24 };
  ec_ptd ptd;
  if (ec_ptd_open(&ptd, file.data, file.size, NULL) != EC_OK) return 0;
  const uint64_t end = ec_read_u64(file.data + BUFFER_SIZE_AT - 8) +
                       ec_read_u64(file.data + BUFFER_SIZE_AT);
  out[0] = (ec_region){0, (size_t)end, ec_ptd_schema(), BUFFER_SIZE_AT, grow_pte};
  return 1;
}

static int run_ptd(ec_bytes file, ec_bytes program, ec_random r, ec_fuzz_counts *counts) {
  return ec_fuzz_run(program, file, r, counts);
}

/* ---- bundled programs -------------------------------------------------------------------- */

static void grow_nothing(uint8_t *data, const ec_region *region, size_t by) {
  (void)data, (void)region, (void)by;
}

static size_t bpte_regions(ec_bytes file, ec_region *out) {
  ec_bpte bpte;
  if (ec_bpte_open(&bpte, file.data, file.size, NULL) != EC_OK) return 0;
  out[0] = (ec_region){0, file.size, ec_bpte_schema(), SIZE_MAX, grow_nothing};
  return 1;
}

static volatile uint64_t sink; /* sums of all read data */

static void read_values(ec_fb_vec values, ec_fuzz_counts *counts) {
  for (uint32_t i = 0; i < values.count; i++) {
    ec_fb_table value = ec_fb_vec_table(values, i);
    ec_fb_table tensor = ec_fb_union(value, EC_BPTE_Value_val, EC_BPTE_TENSOR);
    ec_bpte_tensor t;
    if (tensor && ec_bpte_read_tensor(tensor, &t, NULL) == EC_OK) {
      for (size_t k = 0; k < t.data.size; k++) sink += t.data.data[k];
      counts->tensors++;
    }
  }
}

static int run_bpte(ec_bytes file, ec_bytes program, ec_random r, ec_fuzz_counts *counts) {
  ec_bpte bpte;
  (void)program;
  if (ec_bpte_open(&bpte, file.data, file.size, NULL) != EC_OK) {
    counts->cases++;
    return 0;
  }
  ec_fb_vec suites = ec_fb_vector(bpte.root, EC_BPTE_BundledProgram_method_test_suites);
  for (uint32_t s = 0; s < suites.count; s++) {
    ec_fb_vec cases = ec_fb_vector(ec_fb_vec_table(suites, s),
                                   EC_BPTE_BundledMethodTestSuite_test_cases);
    for (uint32_t c = 0; c < cases.count; c++) {
      ec_fb_table one = ec_fb_vec_table(cases, c);
      read_values(ec_fb_vector(one, EC_BPTE_BundledMethodTestCase_inputs), counts);
      read_values(ec_fb_vector(one, EC_BPTE_BundledMethodTestCase_expected_outputs), counts);
    }
  }
  return ec_fuzz_run(bpte.program, (ec_bytes){NULL, 0}, r, counts);
}

/* ---- payloads of delegates --------------------------------------------------------------- */

/* Backends whose payload is a header, a FlatBuffer and constants. */
typedef struct payload_format {
  const char *magic; /* four bytes at offset 4 */
  const ec_fb_schema *(*schema)(void);
} payload_format;

static const payload_format formats[] = {
    {"VH00", ecv_payload_schema},
#ifdef EC_FUZZ_XNNPACK
    {"XH00", ecx_payload_schema},
#endif
};

/* The headers have the same members: offset and size of the FlatBuffer, offset of constants. */
enum { GRAPH_SIZE_AT = 14, CONSTANTS_AT = 18, HEADER_SIZE = 30, PTE_SEGMENTS_AT = 32 };
enum { MLX_HEADER = 24 };

static void add_u32(uint8_t *at, size_t by) {
  const uint32_t value = ec_read_u32(at) + (uint32_t)by;
  memcpy(at, &value, sizeof value);
}

static void grow_field(uint8_t *data, ec_fb_table table, unsigned id, uint64_t by) {
  const uint8_t *at = ec_fb_field_at(table, id);
  if (at) add_u64(data + (at - data), by);
}

/* The header of the payload, the program's list of segments, and the program's header. */
static void grow_payload(uint8_t *data, const ec_region *region, size_t by) {
  const uint64_t base = ec_read_u64(data + PTE_SEGMENTS_AT - 8);
  ec_fb_vec segments = ec_fb_vector(ec_fb_root(data), EC_PTE_Program_segments);
  for (uint32_t i = 0; i < segments.count; i++) {
    ec_fb_table segment = ec_fb_vec_table(segments, i);
    const uint64_t at = base + ec_fb_u64(segment, EC_PTE_DataSegment_offset);
    const uint64_t end = at + ec_fb_u64(segment, EC_PTE_DataSegment_size);
    if (at >= region->at + region->size) grow_field(data, segment, EC_PTE_DataSegment_offset, by);
    else if (end >= region->at) grow_field(data, segment, EC_PTE_DataSegment_size, by);
  }
  if (ec_read_u64(data + PTE_SEGMENTS_AT)) add_u64(data + PTE_SEGMENTS_AT, by);
  if (region->sizes_at == SIZE_MAX) return;
  add_u32(data + region->sizes_at, by);
  add_u32(data + region->sizes_at + CONSTANTS_AT - GRAPH_SIZE_AT, by);
}

/* The header of an MLX graph has the end of the FlatBuffer, 16 bytes before its beginning. */
static void grow_mlx(uint8_t *data, const ec_region *region, size_t by) {
  grow_payload(data, region, by);
  add_u64(data + region->at - 16, by);
}

/* Returns the schema of a payload, or NULL. */
static const ec_fb_schema *payload_schema(ec_bytes payload) {
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
    if (payload.size >= HEADER_SIZE && memcmp(payload.data + 4, formats[i].magic, 4) == 0)
      return formats[i].schema();
  return NULL;
}

/* Finds the FlatBuffer of a payload: the payload itself, or a part that its header states. */
static bool find_region(ec_bytes payload, size_t start, ec_region *out) {
  const ec_fb_schema *schema = payload_schema(payload);
  size_t at = 0, size = payload.size, sizes_at = SIZE_MAX;
  if (schema) {
    at = ec_read_u32(payload.data + GRAPH_SIZE_AT - 4);
    size = ec_read_u32(payload.data + GRAPH_SIZE_AT);
    sizes_at = start + GRAPH_SIZE_AT;
  } else if (payload.size >= HEADER_SIZE && memcmp(payload.data + 4, "TOSA", 4) == 0) {
    schema = ets_payload_schema();
  } else if (payload.size >= HEADER_SIZE && memcmp(payload.data + 4, "NPTG", 4) == 0) {
    schema = ecn_payload_schema();
  } else if (payload.size >= HEADER_SIZE && memcmp(payload.data + 4, "MLX0", 4) == 0) {
    schema = emx_payload_schema();
    at = MLX_HEADER;
    size = ec_read_u64(payload.data + 8) - at;
  }
  if (!schema || at > payload.size || size > payload.size - at ||
      ec_fb_verify(payload.data + at, size, schema, "payload", NULL) != EC_OK)
    return false;
  *out = (ec_region){start + at, size, schema, sizes_at,
                     at == MLX_HEADER && sizes_at == SIZE_MAX ? grow_mlx : grow_payload};
  return true;
}

/* Finds payloads, in segments of a program with an extended header. */
static size_t payload_regions(ec_bytes file, ec_region *out) {
  ec_pte pte;
  size_t count = 0;
  if (ec_pte_open(&pte, file.data, file.size, EC_VERIFY_MINIMAL, NULL) != EC_OK ||
      pte.header_length < PTE_SEGMENTS_AT)
    return 0;
  const uint32_t segments = ec_fb_vector(pte.root, EC_PTE_Program_segments).count;
  for (uint32_t i = 0; i < segments && count < EC_MAX_REGIONS; i++) {
    ec_bytes payload;
    if (ec_pte_segment(&pte, i, &payload, NULL) != EC_OK) continue;
    count += find_region(payload, (size_t)(payload.data - file.data), &out[count]);
  }
  return count;
}

/* Finds the payloads that are no FlatBuffers. */
static size_t plain_regions(ec_bytes file, ec_region *out) {
  ec_pte pte;
  ec_bytes payload;
  if (ec_pte_open(&pte, file.data, file.size, EC_VERIFY_MINIMAL, NULL) != EC_OK ||
      pte.header_length < PTE_SEGMENTS_AT || ec_pte_segment(&pte, 0, &payload, NULL) != EC_OK ||
      !payload.size)
    return 0;
  *out = (ec_region){(size_t)(payload.data - file.data), payload.size, NULL, SIZE_MAX, NULL};
  return 1;
}

/* ---- packages ---------------------------------------------------------------------------- */

enum {
  LOCAL_BYTES = 30, LOCAL_PACKED = 18, LOCAL_SIZE = 22, LOCAL_NAME = 26,
  ENTRY_BYTES = 46, ENTRY_PACKED = 20, ENTRY_SIZE = 24, ENTRY_NAME = 28, ENTRY_LOCAL = 42,
  END_BYTES = 22, END_DIRECTORY = 16
};

static uint32_t read_u16(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 8; }

static bool has_mark(ec_bytes file, size_t at, const char *mark, size_t bytes) {
  return at < file.size && file.size - at >= bytes && memcmp(file.data + at, mark, 4) == 0;
}

/* Returns the bytes of a record of the directory. */
static size_t entry_bytes(const uint8_t *entry) {
  return ENTRY_BYTES + read_u16(entry + ENTRY_NAME) + read_u16(entry + ENTRY_NAME + 2) +
         read_u16(entry + ENTRY_NAME + 4);
}

/* The sizes of the first member, and places after it. `sizes_at` is that of the directory. */
static void grow_package(uint8_t *data, const ec_region *region, size_t by) {
  uint8_t *entry = data + region->sizes_at + by;
  add_u32(data + LOCAL_PACKED, by);
  add_u32(data + LOCAL_SIZE, by);
  for (; entry[2] == 1; entry += entry_bytes(entry)) {
    const bool is_first = ec_read_u32(entry + ENTRY_LOCAL) == 0;
    if (is_first) add_u32(entry + ENTRY_PACKED, by);
    if (is_first) add_u32(entry + ENTRY_SIZE, by);
    if (!is_first) add_u32(entry + ENTRY_LOCAL, by);
  }
  add_u32(entry + END_DIRECTORY, by);
}

/* Finds all bytes, and the graph: the first member of an archive whose records follow one another,
 * without gaps. */
static size_t package_regions(ec_bytes file, ec_region *out) {
  size_t at = 0, graph = 0, directory;
  while (has_mark(file, at, "PK\003\004", LOCAL_BYTES)) {
    const uint8_t *local = file.data + at;
    at += LOCAL_BYTES + read_u16(local + LOCAL_NAME) + read_u16(local + LOCAL_NAME + 2);
    if (!graph) graph = at;
    at += ec_read_u32(local + LOCAL_SIZE);
  }
  directory = at;
  while (has_mark(file, at, "PK\001\002", ENTRY_BYTES)) at += entry_bytes(file.data + at);
  out[0] = (ec_region){0, file.size, NULL, SIZE_MAX, NULL};
  if (!graph || !has_mark(file, at, "PK\005\006", END_BYTES) || graph > directory) return 1;
  const size_t size = ec_read_u32(file.data + LOCAL_SIZE);
  if (size > directory - graph ||
      ec_fb_verify(file.data + graph, size, ecn_payload_schema(), "graph", NULL) != EC_OK)
    return 1;
  out[1] = (ec_region){graph, size, ecn_payload_schema(), directory, grow_package};
  return 2;
}

/* ---- the table --------------------------------------------------------------------------- */

static const ec_fuzz_target targets[] = {
    {"pte", run_pte, pte_regions},
    {"ptd", run_ptd, ptd_regions},
    {"bpte", run_bpte, bpte_regions},
    {"cadence", run_pte, pte_regions},
    {"calls", run_pte, pte_regions},
    {"cortex_m", run_pte, pte_regions},
    {"llm", run_pte, pte_regions},
    {"coreml", run_pte, plain_regions},
    {"mlx", run_pte, payload_regions},
    {"native", run_pte, payload_regions},
    {"openvino", run_pte, plain_regions},
    {"package", run_pte, package_regions},
    {"tosa", run_pte, payload_regions},
    {"vulkan", run_pte, payload_regions},
#ifdef EC_FUZZ_XNNPACK
    {"xnnpack", run_pte, payload_regions},
#endif
};

const ec_fuzz_target *ec_fuzz_find_target(const char *name) {
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
    if (!strcmp(targets[i].name, name)) return &targets[i];
  return NULL;
}

ec_random ec_fuzz_seed(ec_bytes file) {
  uint64_t sum = file.size;
  for (size_t i = 0; i < file.size; i++) sum = (sum ^ file.data[i]) * 0x100000001b3u;
  return ec_random_seed(sum, file.size);
}

ec_bytes ec_fuzz_read(const char *path) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  uint8_t *data = size < 0 ? NULL : malloc(size ? (size_t)size : 1);
  if (data) rewind(file);
  if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(2);
  }
  fclose(file);
  return (ec_bytes){data, (size_t)size};
}

ec_fuzz_setup ec_fuzz_set_up(int argc, char **argv) {
  ec_fuzz_setup s = {&targets[0], {NULL, 0}};
  for (int i = 1; i < argc; i++) {
    if (!strncmp(argv[i], "--target=", 9)) s.target = ec_fuzz_find_target(argv[i] + 9);
    if (!strncmp(argv[i], "--program=", 10)) s.program = ec_fuzz_read(argv[i] + 10);
    if (!s.target) {
      fprintf(stderr, "%s: this build has no such target\n", argv[i]);
      exit(2);
    }
  }
  if (s.target->run == run_ptd && !s.program.data) {
    fprintf(stderr, "--target=ptd needs --program=FILE, the program of the data\n");
    exit(2);
  }
  ec_fuzz_init();
  return s;
}
