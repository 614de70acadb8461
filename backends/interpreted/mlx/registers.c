/* Registers, and a journal of writes. */
#include "registers.h"

#include "../grow.h"

bool emx_registers_open(emx_registers *r, const ec_host *host, uint32_t tensors, uint32_t values) {
  const size_t count = (size_t)tensors + values;
  *r = (emx_registers){.host = host, .tensor_count = tensors, .value_count = values};
  r->operands = host->alloc((count + 1) * sizeof *r->operands);
  r->marks = host->alloc((count + 1) * sizeof *r->marks);
  if (!r->operands || !r->marks) return false;
  for (size_t i = 0; i < count; i++) r->operands[i] = r->marks[i] = ECT_ABSENT;
  return true;
}

void emx_registers_close(emx_registers *r) {
  r->host->free(r->operands);
  r->host->free(r->marks);
  r->host->free(r->journal);
}

bool emx_set(emx_registers *r, uint32_t key, uint32_t operand) {
  emx_write *journal = ect_grow(r->host, r->journal, &r->room, r->count, sizeof *journal);
  if (!journal) return false;
  r->journal = journal;
  r->journal[r->count++] = (emx_write){key, r->operands[key]};
  r->operands[key] = operand;
  return true;
}

emx_write *emx_unwind(emx_registers *r, size_t mark, size_t *count) {
  emx_write *list = r->host->alloc((r->count - mark + 1) * sizeof *list);
  *count = 0;
  if (!list) return NULL;
  while (r->count > mark) {
    const emx_write w = r->journal[--r->count];
    const bool is_listed = r->marks[w.key] < *count && list[r->marks[w.key]].key == w.key;
    if (!is_listed) {
      r->marks[w.key] = (uint32_t)*count;
      list[(*count)++] = (emx_write){w.key, r->operands[w.key]};
    }
    r->operands[w.key] = w.before;
  }
  return list;
}
