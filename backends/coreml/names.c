/* A hash table with open addressing, at most half full. */
#include "names.h"

#include <string.h>

static ecm_name *find_row(const ecm_names *names, ecm_bytes name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < name.size; i++) hash = (hash ^ name.data[i]) * 0x100000001b3u;
  for (size_t at = (size_t)(hash ^ hash >> 32);; at++) {
    ecm_name *row = &names->rows[at & (names->room - 1)];
    if (!row->name.data) return row;
    if (row->name.size == name.size &&
        (!name.size || memcmp(row->name.data, name.data, name.size) == 0))
      return row;
  }
}

static bool double_room(ecm_names *names) {
  ecm_names larger = {.host = names->host, .room = names->room ? 2 * names->room : 64};
  larger.rows = names->host->alloc(larger.room * sizeof *larger.rows);
  if (!larger.rows) return false;
  for (size_t i = 0; i < names->room; i++)
    if (names->rows[i].name.data) *find_row(&larger, names->rows[i].name) = names->rows[i];
  names->host->free(names->rows);
  names->rows = larger.rows;
  names->room = larger.room;
  return true;
}

bool ecm_names_set(ecm_names *names, ecm_bytes name, uint32_t number) {
  if (2 * names->count >= names->room && !double_room(names)) return false;
  if (!name.data) name.data = (const uint8_t *)"";
  ecm_name *row = find_row(names, name);
  names->count += !row->name.data;
  *row = (ecm_name){name, number};
  return true;
}

uint32_t ecm_names_find(const ecm_names *names, ecm_bytes name) {
  if (!names->room) return UINT32_MAX;
  const ecm_name *row = find_row(names, name);
  return row->name.data ? row->number : UINT32_MAX;
}

void ecm_names_free(ecm_names *names) {
  if (names->host) names->host->free(names->rows);
  *names = (ecm_names){0};
}
