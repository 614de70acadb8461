/* The kinds of nodes, generated from nodes.def. */
#ifndef ECX_NODES_KINDS_H
#define ECX_NODES_KINDS_H

#include "nodes/kind.h"

/* By the type byte of a node; a kind without a name is unknown. */
extern const ecx_kind ecx_kinds[ECX_KINDS];

/* Numbers of the kinds of nodes: ECX_KIND_Conv2d. */
enum {
  ECX_KIND_None = 0,
#define ECX_NODE(number, name, ...) ECX_KIND_##name = (number),
#include "nodes/nodes.def"
#undef ECX_NODE
};

#endif
