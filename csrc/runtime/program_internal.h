/* The struct of a program (program.c), for the files of runtime/ that load and describe methods. */
#ifndef EC_RUNTIME_PROGRAM_INTERNAL_H
#define EC_RUNTIME_PROGRAM_INTERNAL_H

#include "core/lock.h"
#include "format/named_data.h"
#include "runtime/memory/state_block.h"
#include "runtime/package.h"
#include "runtime/program.h"

struct ec_program {
  ec_arena arena; /* everything below except sources */
  ec_source file;
  ec_source *data;
  size_t data_count;
  ec_package package; /* the file, if it is one: then `pte` is its program */
  ec_pte pte;
  ec_named_map named;
  ec_fb_vec plans;
  const char **names;
  ec_program_options options;
  ec_state_blocks state;
  ec_lock state_lock;      /* held while a method with shared state runs */
  ec_lock copy_lock;       /* held while a package's data is copied */
  const ec_program *outer; /* of a program inside a payload: its data is visible, too */
};

/* Finds named data in a program, then in its outer programs. Returns NULL if none has the key. */
const ec_named_data *ec_program_data(const ec_program *program, const char *key);

/* Returns the size of the program's files. */
uint64_t ec_program_bytes(const ec_program *program);

/* Returns the default limit on load steps: linear in the size of the files, so that repeated
 * references in a file are bounded. */
uint64_t ec_program_load_steps(const ec_program *program);

/* Returns the bytes from an address to the end of the program's file that has it; 0: none has. */
size_t ec_program_bytes_from(const ec_program *program, const void *data);

/* Returns a copy of named data at an aligned address, which the program keeps; NULL: none. */
const void *ec_program_copy(const ec_program *program, const char *key);

/* Gives back the pages of mapped files that hold some data, which is not read soon. */
void ec_program_release_pages(const ec_program *program, const void *data, size_t size);

#endif
