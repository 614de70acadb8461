/* Named data: blobs and external tensors by key, merged from a program and any number of .ptd
 * files. Keys are unique across all of them. */
#ifndef EC_FORMAT_NAMED_DATA_H
#define EC_FORMAT_NAMED_DATA_H

#include "core/arena.h"
#include "core/tensor.h"
#include "format/pte.h"
#include "format/ptd.h"

typedef struct ec_named_data {
  const char *key;
  ec_bytes bytes;
  bool has_layout;  /* .ptd tensors: dtype, sizes, dim_order below */
  ec_tensor layout; /* data is NULL */
  int source;       /* -1: the program; else index of the .ptd */
  const char *path; /* of the .ptd; NULL: the program, or a buffer */
  void *copy;       /* room for a copy at an aligned address; or NULL */
} ec_named_data;

/* Named data that is known already. */
typedef struct ec_named_list {
  const ec_named_data *items;
  size_t count;
} ec_named_list;

/* A zeroed map is empty. */
typedef struct ec_named_map {
  ec_named_data *items; /* sorted by key, in the arena given to ec_named_map_init */
  size_t count;
} ec_named_map;

/* Merges the named data and checks all segments. A duplicate key fails with InvalidArgument, naming
 * both places. `items` are data of the program that its .pte does not have; NULL: none. */
ec_status ec_named_map_init(ec_named_map *map, const ec_pte *pte, const ec_ptd *ptds, size_t count,
                            const ec_named_list *items, ec_arena *arena, ec_error *err);

/* Writes how messages call the file of an entry, if that is a .ptd. Returns the text. */
const char *ec_named_data_place(const ec_named_data *entry, char text[EC_PTD_TEXT]);

/* Returns NULL if no entry has that key. */
const ec_named_data *ec_named_map_find(const ec_named_map *map, const char *key);

#endif
