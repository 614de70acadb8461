/* Field numbers of schema.def, ETS_<Table>_<field>. */
#ifndef ETS_FIELDS_H
#define ETS_FIELDS_H

enum {
#define EC_FB_TABLE_BEGIN(table)
#define EC_FB_FIELD(table, id, name, kind, arg) ETS_##table##_##name = (id),
#define EC_FB_TABLE_END(table)
#include "schema.def"
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
};

#endif
