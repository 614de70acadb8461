/* format/pte.c: a file of any size and content is opened without a read outside, and each
 * segment and payload that is found is inside the file. Reads of tables are those of a verified
 * buffer (model_fb.h). */
#include "format/pte.c"
#include "proofs/model_fb.h"

ec_status ec_pte_check_program(ec_fb_table program, ec_error *err) {
  bool fails;
  return fails ? EC_INVALID_PROGRAM : EC_OK;
}

/* The invariant of an opened file, and all that the proofs of its readers assume. */
static bool is_opened(const ec_pte *pte) {
  return pte->data == model_file && pte->size == model_size && pte->program_size <= pte->size &&
         ec_in_range(pte->segment_base, pte->segment_data_size, pte->size);
}

static void prove_open(void) {
  ec_pte pte;
  model_open(1);
  ec_verification level;
  if (ec_pte_open(&pte, model_file, model_size, level, NULL) == EC_OK)
    prove(is_opened(&pte), "tables and segments are inside");
}

static ec_pte open_any(void) {
  ec_pte pte;
  model_open(1);
  pte.data = model_file;
  pte.root = &model_table;
  assume(is_opened(&pte));
  return pte;
}

static void prove_segment(void) {
  const ec_pte pte = open_any();
  uint64_t index;
  ec_bytes out;
  if (ec_pte_segment(&pte, index, &out, NULL) == EC_OK)
    prove(model_has(out.data, out.size), "a segment is inside");
}

/* A payload is such data, or a segment. */
static void prove_inline(void) {
  const ec_pte pte = open_any();
  uint32_t index;
  ec_bytes out;
  if (find_inline_data(&pte, index, &out, NULL) == EC_OK)
    prove(model_has(out.data, out.size), "a payload in the tables is inside");
}

int main(void) { EC_PROVE(); }
