/* Registers: a tensor or value of the payload is written many times, an operand of the graph once.
 * Each write makes a new operand; a register's is the newest one at the point of reading. A journal
 * takes back what a branch has written. */
#ifndef EMX_REGISTERS_H
#define EMX_REGISTERS_H

#include "../graph.h"

typedef struct emx_write {
  uint32_t key, before;
} emx_write;

/* Keys: numbers of tensors, then those of values. */
typedef struct emx_registers {
  const ec_host *host;
  uint32_t *operands; /* by key; ECT_ABSENT: nothing has written it */
  uint32_t *marks;    /* by key: positions in a list, for emx_unwind */
  uint32_t tensor_count, value_count;
  emx_write *journal;
  size_t count, room;
} emx_registers;

/* Returns false without memory. */
bool emx_registers_open(emx_registers *r, const ec_host *host, uint32_t tensors, uint32_t values);
void emx_registers_close(emx_registers *r);
/* Sets the operand of a register. Returns false without memory. */
bool emx_set(emx_registers *r, uint32_t key, uint32_t operand);
/* Takes back the writes since the journal had `mark` entries. Returns them, each register once with
 * its last operand in `before`, until host->free; NULL without memory. */
emx_write *emx_unwind(emx_registers *r, size_t mark, size_t *count);

#endif
