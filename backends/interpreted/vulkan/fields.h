/* Field numbers of schema.def, ECV_<Table>_<field>, and the types of its union and enum. */
#ifndef ECV_FIELDS_H
#define ECV_FIELDS_H

enum {
#define EC_FB_TABLE_BEGIN(table)
#define EC_FB_FIELD(table, id, name, kind, arg) ECV_##table##_##name = (id),
#define EC_FB_TABLE_END(table)
#include "schema.def"
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
};

/* Union GraphTypes. */
enum {
  ECV_NULL = 1, ECV_INT, ECV_DOUBLE, ECV_BOOL, ECV_TENSOR, ECV_INT_LIST, ECV_DOUBLE_LIST,
  ECV_BOOL_LIST, ECV_VALUE_LIST, ECV_STRING, ECV_SYM_INT, ECV_TYPES
};

#endif
