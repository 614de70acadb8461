/* Converts a .def file of tables to schemas for ec_fb_verify. After this header, including
 * program.def or flat_tensor.def defines `schema_<Table>` for each table in it. The including file
 * declares the arrays of unions, `union_<Name>`. */
#ifndef EC_FORMAT_SCHEMA_H
#define EC_FORMAT_SCHEMA_H

#include "format/fb.h"

#define EC_FB_SCALAR_ROW(bytes) EC_FB_SCALAR, (bytes), NULL, 0
#define EC_FB_VECTOR_ROW(bytes) EC_FB_VECTOR, (bytes), NULL, 0
#define EC_FB_STRING_ROW(unused) EC_FB_STRING, 0, NULL, 0
#define EC_FB_STRINGS_ROW(unused) EC_FB_STRINGS, 0, NULL, 0
#define EC_FB_TABLE_ROW(table) EC_FB_TABLE, 0, only_##table, 1
#define EC_FB_TABLES_ROW(table) EC_FB_TABLES, 0, only_##table, 1
#define EC_FB_UNION_ROW(name) EC_FB_UNION, 0, union_##name, sizeof union_##name / sizeof(void *)

#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
/* An empty last row, not counted, because a table without fields needs a non-empty array. */
#define EC_FB_TABLE_BEGIN(table) static const ec_fb_field fields_##table[] = {
#define EC_FB_FIELD(table, id, name, kind, arg) {#name, (id), EC_FB_##kind##_ROW(arg)},
#define EC_FB_TABLE_END(table)                                                                     \
  {NULL, 0, 0, 0, NULL, 0}};                                                                       \
  static const ec_fb_schema schema_##table = {                                                     \
      #table, fields_##table, sizeof fields_##table / sizeof fields_##table[0] - 1};               \
  static const ec_fb_schema *const only_##table[] __attribute__((unused)) = {&schema_##table};

#endif
