/* .pte files: header, program FlatBuffer, segments. Opening verifies the structure, so all later
 * reads (ec_fb_* and the functions here) are safe for any content. */
#ifndef EC_FORMAT_PTE_H
#define EC_FORMAT_PTE_H

#include "format/fb.h"
#include "format/pte_fields.h"

/* The reference's verification levels. Memory safety is always checked; INTERNAL_CONSISTENCY adds
 * the reference's validate_program (see format/README.md). */
typedef enum ec_verification {
  EC_VERIFY_MINIMAL = 0,
  EC_VERIFY_INTERNAL_CONSISTENCY = 1
} ec_verification;

typedef struct ec_pte {
  const uint8_t *data; /* the file, borrowed */
  size_t size;
  uint32_t header_length;     /* 0: no extended header */
  uint64_t program_size;      /* bytes of the FlatBuffer from offset 0 */
  uint64_t segment_base;      /* 0: no segments */
  uint64_t segment_data_size; /* 0: not stated */
  ec_fb_table root;           /* table Program */
} ec_pte;

/* Returns the table Program of program.def, for walks over the whole file. */
const ec_fb_schema *ec_pte_schema(void);

/* Checks header, sizes, identifier and structure. Errors: InvalidArgument (too small),
 * InvalidProgram (invalid content; a wrong identifier or kind of file is named: "found identifier
 * 'ET11', expected 'ET12'"). `out` is zeroed on failure. */
ec_status ec_pte_open(ec_pte *out, const uint8_t *data, size_t size, ec_verification level,
                      ec_error *err);

/* Finds segment `index`. Each call checks that it lies inside the file. */
ec_status ec_pte_segment(const ec_pte *pte, uint64_t index, ec_bytes *out, ec_error *err);

/* Finds constant `buffer_idx` (> 0) of at least `nbytes`, in the constant segment or in the legacy
 * constant_buffer. */
ec_status ec_pte_constant(const ec_pte *pte, uint32_t buffer_idx, size_t nbytes, ec_bytes *out,
                          ec_error *err);

/* Finds the initial state of a mutable buffer: mutable_data_segments[0] at offset `buffer_idx`. */
ec_status ec_pte_mutable_data(const ec_pte *pte, uint32_t buffer_idx, size_t nbytes, ec_bytes *out,
                              ec_error *err);

/* Finds a delegate's payload. `ref` is a table BackendDelegateDataReference (inline or segment). */
ec_status ec_pte_delegate_data(const ec_pte *pte, ec_fb_table ref, ec_bytes *out, ec_error *err);

#endif
