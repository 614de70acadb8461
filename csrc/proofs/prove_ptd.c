/* format/ptd.c: a data file of any size and content is opened without a read outside, and each
 * segment that is found is inside the file. */
#include "format/ptd.c"
#include "proofs/model_fb.h"

static void prove_segment(void) {
  ec_ptd ptd;
  uint64_t index;
  ec_bytes out;
  model_open(1);
  if (ec_ptd_open(&ptd, model_file, model_size, NULL) != EC_OK) return;
  prove(ec_in_range(ptd.segment_base, ptd.segment_data_size, ptd.size), "segments are inside");
  if (ec_ptd_segment(&ptd, index, &out, NULL) == EC_OK)
    prove(model_has(out.data, out.size), "a segment is inside");
}

int main(void) { EC_PROVE(); }
