/* Field ids of schema.def, EMX_<Table>_<field>. */
#ifndef EMX_FIELDS_H
#define EMX_FIELDS_H

enum {
#define EC_FB_PREFIX EMX
#include "format/fields.h"
#include "schema.def"
#undef EC_FB_PREFIX
};

#endif
