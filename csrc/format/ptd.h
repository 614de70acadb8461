/* .ptd files (FlatTensor): named blobs and tensors in a file separate from the program. */
#ifndef EC_FORMAT_PTD_H
#define EC_FORMAT_PTD_H

#include "format/fb.h"

/* Field ids EC_PTD_<Table>_<field>, from flat_tensor.def. */
enum {
#define EC_FB_PREFIX EC_PTD
#include "format/fields.h"
#include "format/flat_tensor.def"
#undef EC_FB_PREFIX
};

typedef struct ec_ptd {
  const uint8_t *data; /* the file, borrowed */
  size_t size;
  uint64_t segment_base, segment_data_size;
  ec_fb_table root; /* table FlatTensor */
  const char *path; /* for messages, set by the caller; NULL: a buffer */
} ec_ptd;

enum { EC_PTD_TEXT = 320 };

/* Writes how messages call a file: "data file 'weights.ptd'", or "data file 0" of a buffer, by its
 * index among the files. Returns the text. */
const char *ec_ptd_text(const char *path, size_t index, char text[EC_PTD_TEXT]);

/* Returns the table FlatTensor of flat_tensor.def, for walks over the whole file. */
const ec_fb_schema *ec_ptd_schema(void);

/* Checks header, sizes, identifier ("FT01") and structure. Errors: InvalidExternalData. */
ec_status ec_ptd_open(ec_ptd *out, const uint8_t *data, size_t size, ec_error *err);

/* Finds segment `index`. Each call checks that it lies inside the file and inside the segment data
 * stated by the header. */
ec_status ec_ptd_segment(const ec_ptd *ptd, uint64_t index, ec_bytes *out, ec_error *err);

#endif
