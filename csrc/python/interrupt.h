/* Signal handling while a thread works, or waits for a lock, without the GIL. */
#ifndef EC_PYTHON_INTERRUPT_H
#define EC_PYTHON_INTERRUPT_H

#include "core/budget.h"
#include "python/state.h"

typedef struct ecpy_interrupt {
  ec_interrupt asked;   /* the callback for the runtime */
  PyObject *exception;  /* raised by a handler (KeyboardInterrupt); NULL: none */
} ecpy_interrupt;

/* Initialises the struct. It must not move, because `asked` refers to it. */
void ecpy_interrupt_init(ecpy_interrupt *interrupt);

/* Raises the exception of a handler, once. Returns false if there is none. */
bool ecpy_interrupt_raise(ecpy_interrupt *interrupt);

#endif
