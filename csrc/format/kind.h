/* What a file, directory or object is that is not what was expected, for messages: kinds.def. Small
 * builds have no kinds. */
#ifndef EC_FORMAT_KIND_H
#define EC_FORMAT_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* Returns whether a name is in an archive: at its begin, or in the list at its end. */
bool ec_kind_has_name(const uint8_t *data, size_t size, const char *name);

/* Explains why a file is not `expected` ("a .pte program"): names its likely kind (a zip, a Git LFS
 * pointer, another ExecuTorch file, ...) with what to do, or its identifier. `size` is the
 * file's. */
ec_status ec_kind_fail(const uint8_t *data, size_t size, ec_status status, const char *expected,
                       ec_error *err);

/* Returns whether a file is an archive of a known kind that is no native package. */
bool ec_kind_is_other_archive(const uint8_t *data, size_t size);

/* Returns the kind of a directory, as "a Core ML package (.mlpackage): <what to do>"; "a
 * directory, not a file" if its entries say nothing. */
const char *ec_kind_of_folder(const char *path);

/* Returns the kind of a Python object by the name of its type, as above, or NULL. */
const char *ec_kind_of_object(const char *type);

#endif
