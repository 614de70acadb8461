/* Field ids of a .def file of tables, <prefix>_<Table>_<field>. This header and the file are the
 * members of an enum:
 *
 *   enum {
 *   #define EC_FB_PREFIX EC_PTE
 *   #include "format/fields.h"
 *   #include "format/program.def"
 *   #undef EC_FB_PREFIX
 *   };
 */
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
#undef EC_FB_JOIN
#undef EC_FB_ID
#define EC_FB_JOIN(prefix, table, name) prefix##_##table##_##name
#define EC_FB_ID(prefix, table, name) EC_FB_JOIN(prefix, table, name)
#define EC_FB_TABLE_BEGIN(table)
#define EC_FB_FIELD(table, id, name, kind, arg) EC_FB_ID(EC_FB_PREFIX, table, name) = (id),
#define EC_FB_TABLE_END(table)
