/* Signals while a thread works, or waits for a lock, without the GIL. */
#ifndef EC_PYTHON_INTERRUPT_H
#define EC_PYTHON_INTERRUPT_H

#include "core/budget.h"
#include "python/state.h"

typedef struct ecpy_interrupt {
  ec_interrupt asked;   /* for the runtime: has Python handle signals */
  PyObject *exception;  /* what a handler has raised: KeyboardInterrupt; NULL: nothing */
} ecpy_interrupt;

/* `asked` refers to it: it must not move. */
void ecpy_interrupt_init(ecpy_interrupt *interrupt);

/* Raises what a handler has raised, once; false: nothing. */
bool ecpy_interrupt_raise(ecpy_interrupt *interrupt);

#endif
