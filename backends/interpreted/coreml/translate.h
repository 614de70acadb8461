/* Operations of the MIL program as calls. */
#ifndef ECM_TRANSLATE_H
#define ECM_TRANSLATE_H

#include "model.h"

/* Translates the operations of the block, whose inputs are defined. */
uint32_t ecm_translate(ecm_model *m, ecm_bytes block);

#endif
