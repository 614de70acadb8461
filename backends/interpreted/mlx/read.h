/* The reader's state, shared by its files. */
#ifndef EMX_READ_H
#define EMX_READ_H

#include "fields.h"
#include "format/fb.h"
#include "payload.h"
#include "registers.h"

/* Types of nodes that the reader or the translation name. */
enum {
  EMX_NONE,
#define EMX_NODE(table) EMX_##table,
#include "union.def"
#undef EMX_NODE
};

/* Chains inside each other, and nodes of all: a payload's bytes bound them. */
enum { EMX_MAX_CHAINS = 64 };

typedef struct emx_reader {
  ect_graph *g;
  ec_fb_table graph;
  ec_fb_vec chains, metas;
  emx_registers registers;
  uint32_t first_buffer, first_temporary; /* numbers of tensors */
  uint32_t block, depth, number;          /* of the next node */
  size_t max_nodes;
} emx_reader;

/* A function of ect_format. */
void emx_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size);

/* Reads the nodes of a chain into the block. */
uint32_t emx_read_chain(emx_reader *r, uint32_t chain);
/* Reads an IfNode or ScanNode, whose chains become blocks. */
uint32_t emx_read_if(emx_reader *r, ec_fb_table node, ect_node *n);
uint32_t emx_read_scan(emx_reader *r, ec_fb_table node, ect_node *n);

/* Finds the operand of a tensor, or of a value. */
uint32_t emx_find_tensor(emx_reader *r, uint32_t tensor, uint32_t *out);
/* Adds the operand that a node writes to a tensor. */
uint32_t emx_write_tensor(emx_reader *r, uint32_t tensor, uint32_t *out);
/* Sets the operand of a register. */
uint32_t emx_set_register(emx_reader *r, uint32_t key, uint32_t operand);
/* Finds an IntOrVid. */
uint32_t emx_read_int(emx_reader *r, ec_fb_table table, uint32_t *out);
uint32_t emx_no_memory(emx_reader *r);

#endif
