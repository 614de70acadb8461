/* Field numbers of tables.def: ECX_<Table>_<field>. */
#ifndef ECX_PAYLOAD_SCHEMA_H
#define ECX_PAYLOAD_SCHEMA_H

#define EC_FB_TABLE_BEGIN(table) enum {
#define EC_FB_FIELD(table, id, name, kind, arg) ECX_##table##_##name = (id),
#define EC_FB_TABLE_END(table) ECX_##table##_fields };
#define ECX_FIELD_F32(table, id, name) EC_FB_FIELD(table, id, name, SCALAR, 4)
#define ECX_FIELD_RANK(table, id, name) EC_FB_FIELD(table, id, name, SCALAR, 4)
#include "payload/tables.def"
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
#undef ECX_FIELD_F32
#undef ECX_FIELD_RANK

/* The tables. */
enum {
#define EC_FB_TABLE_BEGIN(table) ECX_TABLE_##table,
#define EC_FB_FIELD(table, id, name, kind, arg)
#define EC_FB_TABLE_END(table)
#define ECX_FIELD_F32(table, id, name)
#define ECX_FIELD_RANK(table, id, name)
#include "payload/tables.def"
#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
#undef ECX_FIELD_F32
#undef ECX_FIELD_RANK
};

/* Types of the unions; ECX_KINDS is one more than the highest type of a node. */
enum { ECX_KINDS = 48 };
enum { ECX_VALUE_PLAIN = 1, ECX_VALUE_QUANTIZED = 2 };
enum {
  ECX_QUANT_PER_CHANNEL = 1,
  ECX_QUANT_PER_TENSOR = 2,
  ECX_QUANT_PER_TOKEN = 3,
  ECX_QUANT_PER_GROUP = 4
};

#endif
