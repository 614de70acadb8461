/* The kinds of nodes. */
#include "nodes/kinds.h"

#include "nodes/define.h"
#include "nodes/shapes.h"
#include "payload/schema.h"

/* The operands' fields in the tables of tables.def. */
#define LAYOUT_OF_ONE(table)                                                                       \
  static const ecx_layout layout_##table = {                                                       \
    {ECX_##table##_input}, {ECX_##table##_output}, 1, ECX_##table##_flags, 0};
#define LAYOUT_OF_WEIGHTS(table)                                                                   \
  static const ecx_layout layout_##table = {                                                       \
    {ECX_##table##_input, ECX_##table##_filter, ECX_##table##_bias},                               \
    {ECX_##table##_output},                                                                        \
    1,                                                                                             \
    ECX_##table##_flags,                                                                           \
    1 << 2 /* the bias is optional */};
LAYOUT_OF_ONE(Unary)
LAYOUT_OF_ONE(ELU)
LAYOUT_OF_ONE(LeakyReLU)
LAYOUT_OF_ONE(Pooling)
LAYOUT_OF_ONE(Transpose)
LAYOUT_OF_ONE(Reshape)
LAYOUT_OF_ONE(Slice)
LAYOUT_OF_ONE(Pad)
LAYOUT_OF_ONE(Resize)
LAYOUT_OF_WEIGHTS(FullyConnected)
LAYOUT_OF_WEIGHTS(Conv)
static const ecx_layout layout_Binary = {
  {ECX_Binary_input1, ECX_Binary_input2}, {ECX_Binary_output}, 1, ECX_Binary_flags, 0};
static const ecx_layout layout_ArgMaxPooling = {
  {ECX_ArgMaxPooling_input},
  {ECX_ArgMaxPooling_output_value, ECX_ArgMaxPooling_output_index},
  2,
  ECX_ArgMaxPooling_flags,
  0};
static const ecx_layout layout_Concatenate = {
  {ECX_Concatenate_input1, ECX_Concatenate_input2, ECX_Concatenate_input3, ECX_Concatenate_input4,
   ECX_Concatenate_input5},
  {ECX_Concatenate_output},
  1,
  ECX_Concatenate_flags,
  0};
static const ecx_layout layout_Attention = {
  {ECX_Attention_query, ECX_Attention_key, ECX_Attention_value, ECX_Attention_scale,
   ECX_Attention_mask},
  {ECX_Attention_output},
  1,
  ECX_Attention_flags,
  0};

const ecx_kind ecx_kinds[ECX_KINDS] = {
#define ECX_NODE(code, node, params, count, dtypes, bits, shapes, function, value, bit, factors, \
                 none, clamp)                                                                      \
  [code] = {.name = #node,                                                                         \
            .number = (code),                                                                      \
            .table = ECX_TABLE_##params,                                                           \
            .inputs = (count),                                                                     \
            .types = ECX_##dtypes,                                                                 \
            .weights = ECX_BIT_##bit,                                                              \
            .product = ECX_PRODUCT_##factors,                                                      \
            .empty = ECX_EMPTY_##none,                                                             \
            .fusion = ECX_FUSION_##clamp,                                                          \
            .layout = &layout_##params,                                                            \
            .flags = (bits),                                                                       \
            .shape = ecx_shape_##shapes,                                                           \
            .define = ecx_define_##function,                                                       \
            .argument = (value)},
#include "nodes/nodes.def"
#undef ECX_NODE
};
