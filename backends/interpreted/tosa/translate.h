/* Nodes as calls of a program. */
#ifndef ETS_TRANSLATE_H
#define ETS_TRANSLATE_H

#include "dtypes.h"

extern const ect_rules ets_rules;

#endif
