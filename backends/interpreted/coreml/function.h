/* The function of the ML program that a delegate calls. */
#ifndef ECM_FUNCTION_H
#define ECM_FUNCTION_H

#include "../json.h"
#include "model.h"

enum { ECM_FUNCTION_INPUTS = 1 }; /* a field of `message` */

typedef struct ecm_function {
  ect_text message, block;
  ect_json metadata;
  uint32_t lists; /* token of the object with inputNames and outputNames */
} ecm_function;

/* Finds the function and its block. The caller closes, after failures too. */
uint32_t ecm_function_open(ecm_model *m, ecm_function *out);
void ecm_function_close(ecm_function *f);
/* Returns the first token of a list of names, 0 if it is empty; `*list` is for ect_json_next. */
uint32_t ecm_function_names(ecm_model *m, const ecm_function *f, const char *member,
                            uint32_t *list, uint32_t *first);
ect_text ecm_function_text(const ecm_function *f, uint32_t token);

#endif
