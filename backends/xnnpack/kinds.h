/* The kinds of nodes, generated from nodes.def. */
#ifndef ECX_KINDS_H
#define ECX_KINDS_H

#include "kind.h"

/* By the type byte of a node; a kind without a name is unknown. */
extern const ecx_kind ecx_kinds[ECX_KINDS];

#endif
