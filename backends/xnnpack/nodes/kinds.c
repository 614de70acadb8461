/* The kinds of nodes. */
#include "nodes/kinds.h"

#include "nodes/define.h"
#include "nodes/shapes.h"
#include "payload/schema.h"

/* Field numbers of the tables in tables.def; tables with the same fields share a layout. */
static const ecx_layout layout_UNARY = {{0}, {1}, 1, 2, 0};
static const ecx_layout layout_BINARY = {{0, 1}, {2}, 1, 3, 0};
static const ecx_layout layout_SCALED = {{1}, {2}, 1, 3, 0};
static const ecx_layout layout_LINEAR = {{0, 1, 2}, {3}, 1, 4, 1 << 2};
static const ecx_layout layout_CONV = {{15, 16, 17}, {18}, 1, 19, 1 << 2};
static const ecx_layout layout_POOLING = {{10}, {11}, 1, 12, 0};
static const ecx_layout layout_ARGMAX = {{6}, {7, 8}, 2, 9, 0};
static const ecx_layout layout_PERMUTE = {{2}, {3}, 1, 4, 0};
static const ecx_layout layout_SLICE = {{3}, {4}, 1, 5, 0};
static const ecx_layout layout_CONCATENATE = {{1, 2, 3, 4, 7}, {5}, 1, 6, 0};
static const ecx_layout layout_ATTENTION = {{0, 1, 2, 3, 4}, {5}, 1, 6, 0};

const ecx_kind ecx_kinds[ECX_KINDS] = {
#define ECX_NODE(code, node, params, fields, count, dtypes, bits, shapes, function, value, bit,    \
                 factors, none, clamp)                                                             \
  [code] = {.name = #node,                                                                         \
            .number = (code),                                                                      \
            .table = ECX_TABLE_##params,                                                           \
            .inputs = (count),                                                                     \
            .types = ECX_##dtypes,                                                                 \
            .weights = ECX_BIT_##bit,                                                              \
            .product = ECX_PRODUCT_##factors,                                                      \
            .empty = ECX_EMPTY_##none,                                                             \
            .fusion = ECX_FUSION_##clamp,                                                          \
            .layout = &layout_##fields,                                                            \
            .flags = (bits),                                                                       \
            .shape = ecx_shape_##shapes,                                                           \
            .define = ecx_define_##function,                                                       \
            .argument = (value)},
#include "nodes/nodes.def"
#undef ECX_NODE
};
