/* FlatBuffers of tests: writers into memory of a fixed size. They assert nothing: tests check the
 * result. */
#ifndef EC_TESTING_FB_BUILD_H
#define EC_TESTING_FB_BUILD_H

#include <string.h>

#include "format/fb_write.h"

enum { EC_BUILD_BYTES = 1 << 14 };

/* Declares a writer with its memory. */
#define EC_BUILD(name)                                                                             \
  uint8_t name##_bytes[EC_BUILD_BYTES] = {0};                                                      \
  ec_fb_writer name = {.data = name##_bytes, .capacity = EC_BUILD_BYTES}

/* Begins again, after `size` zeros. */
static inline void ec_build_begin(ec_fb_writer *w, size_t size) {
  memset(w->data, 0, w->capacity);
  w->size = size;
  w->failed = false;
}

#endif
