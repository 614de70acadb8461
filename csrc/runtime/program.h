/* A program: an opened .pte with its named data, immutable and shared by any number of methods and
 * threads. */
#ifndef EC_RUNTIME_PROGRAM_H
#define EC_RUNTIME_PROGRAM_H

#include "format/pte.h"
#include "format/source.h"

typedef struct ec_program ec_program;

typedef struct ec_program_options {
  ec_verification verification;
  /* Memory ids from 2 on that hold only state exist once per program and are shared by its methods.
   * Programs exported with MemoryPlanningPass(share_mutable_buffers=True) rely on it. */
  bool share_mutable_buffers;
} ec_program_options;

/* Opens a program. Takes `file` and the `data_count` sources of `data` (.ptd files), also on
 * failure. Errors: those of ec_pte_open, ec_ptd_open and ec_named_map_init. */
ec_status ec_program_open(const ec_program_options *options, ec_source *file, ec_source *data,
                          size_t data_count, ec_program **out, ec_error *err);

/* Frees a program. Its methods must be freed first. NULL is allowed. */
void ec_program_free(ec_program *program);

size_t ec_program_method_count(const ec_program *program);
/* Returns a borrowed name; index below the count. */
const char *ec_program_method_name(const ec_program *program, size_t index);
/* Finds a method by name. NotFound lists the names. */
ec_status ec_program_find_method(const ec_program *program, const char *name, size_t *index,
                                 ec_error *err);

/* Fails if a mapped file of the program has changed. */
ec_status ec_program_check_unchanged(const ec_program *program, ec_error *err);

/* Finds named data, of the .pte and its .ptd files; false: none of this key. */
bool ec_program_named_data(const ec_program *program, const char *key, ec_bytes *out);

#endif
