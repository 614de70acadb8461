/* What every format's `describe` shows: tensors, and nodes with the tensors that they use. */
#ifndef ECT_SHOW_H
#define ECT_SHOW_H

#include "executorch_c/backend.h"
#include "note.h"

enum { ECT_MAX_SHOWN = 64 /* operands of a node, items of a list */ };

typedef struct ect_operands {
  uint32_t ids[ECT_MAX_SHOWN];
  size_t count;
} ect_operands;

typedef struct ect_show {
  const ec_backend_visitor *visitor;
  const ec_host *host;
  uint32_t *positions; /* by id: among the delegate's arguments; UINT32_MAX: not one */
  size_t count;
  ect_note note; /* of the tensor or node under way */
  ect_operands inputs, outputs; /* of the node under way */
} ect_show;

/* Begins with ids below `count` that are no arguments. The caller closes, after failures too. */
uint32_t ect_show_open(ect_show *s, const ec_backend_call *c, const ec_backend_visitor *visitor,
                       size_t count);
void ect_show_close(ect_show *s);
/* States the position of an argument; the first one counts. */
void ect_show_argument(ect_show *s, uint32_t id, uint32_t position);
void ect_show_operand(ect_operands *o, uint32_t id);
/* Shows a tensor with the note, and with the position of its id if the positions are open. */
void ect_show_tensor(ect_show *s, const ec_backend_inner_value *value);
/* Shows the node under way, and begins another. */
void ect_show_node(ect_show *s, uint32_t debug_handle, const char *name);

/* Returns the name of a dtype in a description: "fp32", "int8". */
const char *ect_show_dtype(int32_t dtype);

#endif
