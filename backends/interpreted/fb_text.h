/* Strings of a verified FlatBuffer. */
#ifndef ECT_FB_TEXT_H
#define ECT_FB_TEXT_H

#include "format/fb.h"
#include "names.h"

/* Returns a string of a table; "" if it is absent. A NUL follows. */
static inline ect_text ect_fb_text(ec_fb_table table, unsigned id) {
  return ect_text_of(table ? ec_fb_string(table, id) : NULL);
}
static inline ect_text ect_fb_text_at(ec_fb_vec strings, uint32_t index) {
  return ect_text_of(ec_fb_vec_string(strings, index));
}

#endif
