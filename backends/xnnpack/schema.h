/* Field numbers of payload.def: ECX_<Table>_<field>. */
#ifndef ECX_SCHEMA_H
#define ECX_SCHEMA_H

#define EC_FB_TABLE_BEGIN(table) enum {
#define EC_FB_FIELD(table, id, name, kind, arg) ECX_##table##_##name = (id),
#define EC_FB_TABLE_END(table) ECX_##table##_fields };
#include "payload.def"
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END

/* Types of the unions in it. */
enum { ECX_VALUE_PLAIN = 1, ECX_VALUE_QUANTIZED = 2 };
enum {
  ECX_QUANT_PER_CHANNEL = 1,
  ECX_QUANT_PER_TENSOR = 2,
  ECX_QUANT_PER_TOKEN = 3,
  ECX_QUANT_PER_GROUP = 4
};

#endif
