/* Text that describes a value or node of a payload: pieces with commas between them. */
#ifndef ECT_NOTE_H
#define ECT_NOTE_H

#include <stddef.h>
#include <stdint.h>

enum { ECT_NOTE_BYTES = 320 };

typedef struct ect_note {
  char at[ECT_NOTE_BYTES];
  size_t used;
} ect_note;

/* Appends a piece; drops it if it does not fit. */
void ect_note_add(ect_note *note, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends "name=[1, 2]"; "[1, 2]" if the name is empty. */
void ect_note_list(ect_note *note, const char *name, const int64_t *items, size_t count);

#endif
