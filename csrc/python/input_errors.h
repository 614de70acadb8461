/* Messages about inputs. */
#ifndef EC_PYTHON_INPUT_ERRORS_H
#define EC_PYTHON_INPUT_ERRORS_H

#include "python/method.h"
#include "python/state.h"

/* Raises "method 'forward', input 1: <sentence>; expected <description>" and returns NULL. */
void *ecpy_input_error(ecpy_method *self, size_t index, const char *format, ...);

/* Raises "method 'forward' takes 2 inputs: ..., but got <count>". */
void ecpy_input_count_error(ecpy_method *self, size_t count);

#endif
