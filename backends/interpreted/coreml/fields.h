/* Fields of a model's messages, by the table schema.def. */
#ifndef ECM_FIELDS_H
#define ECM_FIELDS_H

#include "model.h"

/* Refuses a model.mlmodel with a field that is unknown, or not supported, and not its default; with
 * a version that is too new; or with bytes that cannot be read. */
uint32_t ecm_check_fields(ecm_model *m);

#endif
