/* .bpte files (BundledProgram): a .pte with inputs and expected outputs for each method. Read-only
 * here; executorch_c/bundled.py writes them. */
#ifndef EC_FORMAT_BPTE_H
#define EC_FORMAT_BPTE_H

#include "core/dtype.h"
#include "core/limits.h"
#include "format/fb.h"

/* Field ids EC_BPTE_<Table>_<field>, from bundled.def. */
enum {
#define EC_FB_PREFIX EC_BPTE
#include "format/fields.h"
#include "format/bundled.def"
#undef EC_FB_PREFIX
};

/* Types of the union Value.val. */
enum { EC_BPTE_TENSOR = 1, EC_BPTE_INT = 2, EC_BPTE_BOOL = 3, EC_BPTE_DOUBLE = 4 };

typedef struct ec_bpte {
  const uint8_t *data; /* the file, borrowed */
  size_t size;
  ec_bytes program;    /* a whole .pte, not opened */
  ec_fb_table root;    /* table BundledProgram */
} ec_bpte;

/* Returns the table BundledProgram of bundled.def, for walks over the whole file. */
const ec_fb_schema *ec_bpte_schema(void);

/* Checks identifier ("BP08"), structure, and the presence of a program. Errors: InvalidProgram. */
ec_status ec_bpte_open(ec_bpte *out, const uint8_t *data, size_t size, ec_error *err);

/* A tensor of a test case. */
typedef struct ec_bpte_tensor {
  ec_dtype dtype;
  size_t rank;
  int64_t sizes[EC_MAX_RANK];
  uint8_t dim_order[EC_MAX_RANK];
  ec_bytes data; /* dense in dim_order, exactly the bytes that the sizes need */
} ec_bpte_tensor;

/* Reads a table Tensor: known dtype, sizes not negative, dim_order a permutation, complete data.
 * Errors: InvalidProgram, NotSupported (dtype, rank). */
ec_status ec_bpte_read_tensor(ec_fb_table table, ec_bpte_tensor *out, ec_error *err);

#endif
