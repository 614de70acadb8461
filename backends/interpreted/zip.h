/* Zip archives whose members are stored: their bytes are used in place. */
#ifndef ECT_ZIP_H
#define ECT_ZIP_H

#include "names.h"

/* A member that a caller looks for; `data` NULL: the archive does not have it. */
typedef struct ect_member {
  const char *name;
  const uint8_t *data;
  size_t size;
} ect_member;

/* Finds members by name; others are not looked at. Fails if the bytes are no zip archive, or if one
 * of the members occurs twice, is compressed, encrypted, or not inside the archive. Checksums are
 * not compared: that would read all of a file. */
uint32_t ect_zip_find(const ec_backend_call *c, const uint8_t *data, size_t size,
                      ect_member *members, size_t count);

#endif
