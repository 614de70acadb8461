/* A hash table with open addressing, at most half full. */
#include "names.h"

#include <string.h>

static ect_name *find_row(const ect_names *names, ect_text name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < name.size; i++) hash = (hash ^ name.data[i]) * 0x100000001b3u;
  for (size_t at = (size_t)(hash ^ hash >> 32);; at++) {
    ect_name *row = &names->rows[at & (names->room - 1)];
    if (!row->name.data) return row;
    if (row->name.size == name.size &&
        (!name.size || memcmp(row->name.data, name.data, name.size) == 0))
      return row;
  }
}

static bool double_room(ect_names *names) {
  ect_names larger = {.host = names->host, .room = names->room ? 2 * names->room : 64};
  larger.rows = names->host->alloc(larger.room * sizeof *larger.rows);
  if (!larger.rows) return false;
  for (size_t i = 0; i < names->room; i++)
    if (names->rows[i].name.data) *find_row(&larger, names->rows[i].name) = names->rows[i];
  names->host->free(names->rows);
  names->rows = larger.rows;
  names->room = larger.room;
  return true;
}

bool ect_names_set(ect_names *names, ect_text name, uint32_t number) {
  if (2 * names->count >= names->room && !double_room(names)) return false;
  if (!name.data) name.data = (const uint8_t *)"";
  ect_name *row = find_row(names, name);
  names->count += !row->name.data;
  *row = (ect_name){name, number};
  return true;
}

uint32_t ect_names_find(const ect_names *names, ect_text name) {
  if (!names->room) return UINT32_MAX;
  const ect_name *row = find_row(names, name);
  return row->name.data ? row->number : UINT32_MAX;
}

void ect_names_free(ect_names *names) {
  if (names->host) names->host->free(names->rows);
  *names = (ect_names){0};
}
