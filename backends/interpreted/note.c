/* Pieces of text. */
#include "note.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ect_note_add(ect_note *note, const char *fmt, ...) {
  char piece[ECT_NOTE_BYTES];
  va_list args;
  va_start(args, fmt);
  const int n = vsnprintf(piece, sizeof piece, fmt, args);
  va_end(args);
  const size_t comma = note->used ? 2 : 0;
  if (n <= 0 || note->used + comma + (size_t)n >= sizeof note->at) return;
  memcpy(note->at + note->used, ", ", comma);
  memcpy(note->at + note->used + comma, piece, (size_t)n + 1);
  note->used += comma + (size_t)n;
}

void ect_note_list(ect_note *note, const char *name, const int64_t *items, size_t count) {
  char list[ECT_NOTE_BYTES / 2] = "";
  size_t used = 0;
  for (size_t i = 0; i < count && used < sizeof list; i++) {
    const char *fmt = i ? ", %" PRId64 : "%" PRId64;
    const int n = snprintf(list + used, sizeof list - used, fmt, items[i]);
    used += n > 0 ? (size_t)n : 0;
  }
  if (used < sizeof list) ect_note_add(note, "%s%s[%s]", name, *name ? "=" : "", list);
}
