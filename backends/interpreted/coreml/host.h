/* One call of init or describe, and its failures. */
#ifndef ECM_HOST_H
#define ECM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../names.h"

typedef ect_text ecm_bytes;

/* Returns the precision of "%.*s" that shows at most `most` bytes. */
static inline int ecm_clip(ecm_bytes text, int most) {
  return text.size < (size_t)most ? (int)text.size : most;
}

#endif
