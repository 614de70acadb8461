/* Copies of a method's state, with the memory that a sanitizer checks. */
#include "testing/fuzz_state.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/memory/saved_state.h"

bool ec_fuzz_copy_state(ec_method *m) {
  const size_t size = ec_state_size(m);
  uint8_t *saved = malloc(2 * size + 1);
  if (!saved) return true;
  bool same = ec_state_save(m, saved, size, NULL) == EC_OK;
  ec_method_reset(m);
  same &= ec_state_restore(m, saved, size, NULL) == EC_OK;
  same &= ec_state_save(m, saved + size, size, NULL) == EC_OK;
  same &= memcmp(saved, saved + size, size) == 0;
  free(saved);
  return same;
}
