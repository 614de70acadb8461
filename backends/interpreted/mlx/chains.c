/* Nodes that have chains: these become blocks, and registers that they write become results. */
#include "../grow.h"
#include "read.h"

/* ---- a choice -------------------------------------------------------------------------------- */

/* Writes of the two chains, by register: the last operand of each. */
typedef struct branches {
  emx_write *writes[2];
  size_t counts[2];
  uint32_t blocks[2];
} branches;

/* Reads a chain into a block of its own. */
static uint32_t read_block(emx_reader *r, uint32_t chain, uint32_t *block) {
  const uint32_t outer = r->block;
  EC_BACKEND_TRY(ect_add_block(r->g, &(ect_block){0}, block));
  r->block = *block;
  EC_BACKEND_TRY(emx_read_chain(r, chain));
  r->block = outer;
  return EC_BACKEND_OK;
}

static uint32_t read_branch(emx_reader *r, uint32_t chain, size_t which, branches *b) {
  const size_t mark = r->registers.count;
  const uint32_t status = read_block(r, chain, &b->blocks[which]);
  b->writes[which] = emx_unwind(&r->registers, mark, &b->counts[which]);
  if (status != EC_BACKEND_OK) return status;
  return b->writes[which] ? (uint32_t)EC_BACKEND_OK : emx_no_memory(r);
}

/* Returns the write of a register by a branch; NULL: it has none. */
static const emx_write *find_write(const emx_reader *r, const branches *b, size_t which,
                                   uint32_t key) {
  const uint32_t at = r->registers.marks[key];
  return at < b->counts[which] && b->writes[which][at].key == key ? &b->writes[which][at] : NULL;
}

/* Points marks at the writes of a branch. */
static void mark_writes(emx_reader *r, const branches *b, size_t which) {
  for (size_t i = 0; i < b->counts[which]; i++)
    r->registers.marks[b->writes[which][i].key] = (uint32_t)i;
}

/* True for a tensor that is there whichever branch runs; sets what it is after each. A tensor of
 * one branch alone, and values, are not there behind the choice. */
static bool is_result(const emx_reader *r, const branches *b, size_t which, size_t i,
                      uint32_t after[2]) {
  const emx_write *w = &b->writes[which][i], *other = find_write(r, b, !which, w->key);
  if (which && other) return false; /* found among the first branch's */
  after[which] = w->before;
  after[!which] = other ? other->before : r->registers.operands[w->key];
  return w->key < r->registers.tensor_count && after[0] != ECT_ABSENT && after[1] != ECT_ABSENT;
}

/* Adds a link to each result of a branch (0, 1), or a new operand that it becomes behind the choice
 * (2). */
static uint32_t link_results(emx_reader *r, const branches *b, size_t side, uint32_t *count) {
  *count = 0;
  for (size_t which = 0; which < 2; which++) {
    mark_writes(r, b, !which);
    for (size_t i = 0; i < b->counts[which]; i++) {
      uint32_t after[3];
      if (!is_result(r, b, which, i, after)) continue;
      if (side == 2) {
        const ect_operand o = ect_operand_new(ECT_TENSOR);
        EC_BACKEND_TRY(ect_add_operand(r->g, &o, &after[2]));
      }
      EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, after[side]));
      ++*count;
    }
  }
  return EC_BACKEND_OK;
}

/* Sets registers behind the choice. `first` is the link of the first result. */
static uint32_t set_results(emx_reader *r, const branches *b, uint32_t first) {
  emx_write *all = r->g->c.host->alloc((b->counts[0] + b->counts[1] + 1) * sizeof *all);
  size_t count = 0;
  if (!all) return emx_no_memory(r);
  for (size_t which = 0; which < 2; which++) {
    mark_writes(r, b, !which);
    for (size_t i = 0; i < b->counts[which]; i++) {
      const uint32_t key = b->writes[which][i].key;
      uint32_t after[2];
      if (is_result(r, b, which, i, after))
        all[count++] = (emx_write){key, r->g->links[first++].operand};
      else if (!which || !find_write(r, b, 0, key)) all[count++] = (emx_write){key, ECT_ABSENT};
    }
  }
  uint32_t status = EC_BACKEND_OK;
  for (size_t i = 0; i < count && status == EC_BACKEND_OK; i++)
    status = emx_set_register(r, all[i].key, all[i].before);
  r->g->c.host->free(all);
  return status;
}

static uint32_t add_block_link(emx_reader *r, const char *name, uint32_t block) {
  ect_operand o = ect_operand_new(ECT_BLOCK);
  uint32_t number;
  o.first = block;
  EC_BACKEND_TRY(ect_add_operand(r->g, &o, &number));
  return ect_add_link(r->g, ect_text_of(name), number);
}

static uint32_t finish_if(emx_reader *r, uint32_t condition, const branches *b, ect_node *n) {
  ect_graph *g = r->g;
  uint32_t count;
  for (size_t i = 0; i < 2; i++) {
    g->blocks[b->blocks[i]].first_output = (uint32_t)g->link_count;
    EC_BACKEND_TRY(link_results(r, b, i, &count));
    g->blocks[b->blocks[i]].output_count = count;
  }
  n->first = (uint32_t)g->link_count;
  n->input_count = 3;
  EC_BACKEND_TRY(ect_add_link(g, ect_text_of("cond"), condition));
  EC_BACKEND_TRY(add_block_link(r, "then", b->blocks[0]));
  EC_BACKEND_TRY(add_block_link(r, "else", b->blocks[1]));
  EC_BACKEND_TRY(link_results(r, b, 2, &n->output_count));
  EC_BACKEND_TRY(ect_add_node(g, r->block, n));
  return set_results(r, b, n->first + n->input_count);
}

uint32_t emx_read_if(emx_reader *r, ec_fb_table node, ect_node *n) {
  branches b = {{NULL, NULL}, {0, 0}, {0, 0}};
  const ec_fb_table cond = ec_fb_child(node, EMX_If_cond);
  uint32_t condition;
  if (!cond) return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "no field 'cond'");
  EC_BACKEND_TRY(emx_read_int(r, cond, &condition));
  uint32_t status = read_branch(r, ec_fb_u32(node, EMX_If_then_chain_idx), 0, &b);
  if (status == EC_BACKEND_OK)
    status = read_branch(r, ec_fb_u32(node, EMX_If_else_chain_idx), 1, &b);
  if (status == EC_BACKEND_OK) status = finish_if(r, condition, &b, n);
  r->g->c.host->free(b.writes[0]);
  r->g->c.host->free(b.writes[1]);
  return status;
}

/* ---- a loop ---------------------------------------------------------------------------------- */

/* Adds operands that a round reads: a slice of each original, and what the round before carries.
 * Their registers are set. */
static uint32_t add_round_inputs(emx_reader *r, ec_fb_vec tensors) {
  for (uint32_t i = 0; i < tensors.count; i++) {
    uint32_t operand;
    EC_BACKEND_TRY(emx_write_tensor(r, (uint32_t)ec_fb_vec_i32(tensors, i), &operand));
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

/* Links the current operands of tensors. */
static uint32_t link_tensors(emx_reader *r, const char *name, ec_fb_vec tensors) {
  for (uint32_t i = 0; i < tensors.count; i++) {
    uint32_t operand;
    EC_BACKEND_TRY(emx_find_tensor(r, (uint32_t)ec_fb_vec_i32(tensors, i), &operand));
    EC_BACKEND_TRY(ect_add_link(r->g, ect_text_of(name), operand));
  }
  return EC_BACKEND_OK;
}

static uint32_t read_round(emx_reader *r, ec_fb_table node, uint32_t *block) {
  const ec_fb_vec sliced = ec_fb_vector(node, EMX_Scan_sliced);
  const ec_fb_vec carry = ec_fb_vector(node, EMX_Scan_carry);
  const ec_fb_vec outputs = ec_fb_vector(node, EMX_Scan_outputs);
  const uint32_t outer = r->block;
  EC_BACKEND_TRY(ect_add_block(r->g, &(ect_block){.first_input = (uint32_t)r->g->link_count,
                                                  .input_count = sliced.count + carry.count,
                                                  .output_count = outputs.count + carry.count},
                               block));
  EC_BACKEND_TRY(add_round_inputs(r, sliced));
  EC_BACKEND_TRY(add_round_inputs(r, carry));
  r->block = *block;
  EC_BACKEND_TRY(emx_read_chain(r, ec_fb_u32(node, EMX_Scan_body_chain_idx)));
  r->block = outer;
  r->g->blocks[*block].first_output = (uint32_t)r->g->link_count;
  EC_BACKEND_TRY(link_tensors(r, "", outputs));
  return link_tensors(r, "", carry);
}

/* Checks that buffers are not among what the node carries: their state carries itself. */
static uint32_t check_scan(emx_reader *r, ec_fb_table node) {
  const ec_fb_vec lists[] = {ec_fb_vector(node, EMX_Scan_carry),
                             ec_fb_vector(node, EMX_Scan_outputs),
                             ec_fb_vector(node, EMX_Scan_sliced)};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (uint32_t k = 0; k < lists[i].count; k++) {
      const uint32_t tensor = (uint32_t)ec_fb_vec_i32(lists[i], k);
      if (tensor >= r->first_buffer && tensor < r->first_temporary)
        return ect_refuse(r->g, EC_BACKEND_NOT_SUPPORTED,
                          "tensor %u that a round writes is a mutable buffer", (unsigned)tensor);
    }
  if (!ec_fb_vector(node, EMX_Scan_originals).count ||
      ec_fb_vector(node, EMX_Scan_originals).count != lists[2].count)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "%u originals and %u slices",
                      (unsigned)ec_fb_vector(node, EMX_Scan_originals).count,
                      (unsigned)lists[2].count);
  return EC_BACKEND_OK;
}

/* Links what a scan reads and its block, then what it writes. */
static uint32_t finish_scan(emx_reader *r, ec_fb_table node, uint32_t block, ect_node *n) {
  const ec_fb_vec originals = ec_fb_vector(node, EMX_Scan_originals);
  const ec_fb_vec carry = ec_fb_vector(node, EMX_Scan_carry);
  const ec_fb_vec outputs = ec_fb_vector(node, EMX_Scan_outputs);
  const ect_operand axis = ect_number_new(
      ECT_INT, (uint64_t)(int32_t)ec_fb_get(node, EMX_Scan_scan_axis, 4, 1));
  uint32_t operand;
  n->first = (uint32_t)r->g->link_count;
  n->input_count = originals.count + carry.count + 2;
  n->output_count = outputs.count + carry.count;
  EC_BACKEND_TRY(link_tensors(r, "originals", originals));
  EC_BACKEND_TRY(link_tensors(r, "carry", carry));
  EC_BACKEND_TRY(add_block_link(r, "body", block));
  EC_BACKEND_TRY(ect_add_operand(r->g, &axis, &operand));
  EC_BACKEND_TRY(ect_add_link(r->g, ect_text_of("scan_axis"), operand));
  EC_BACKEND_TRY(add_round_inputs(r, outputs));
  EC_BACKEND_TRY(add_round_inputs(r, carry));
  return ect_add_node(r->g, r->block, n);
}

uint32_t emx_read_scan(emx_reader *r, ec_fb_table node, ect_node *n) {
  const size_t mark = r->registers.count;
  uint32_t block;
  EC_BACKEND_TRY(check_scan(r, node));
  const uint32_t status = read_round(r, node, &block);
  size_t count;
  emx_write *writes = emx_unwind(&r->registers, mark, &count);
  r->g->c.host->free(writes);
  if (status != EC_BACKEND_OK) return status;
  return writes ? finish_scan(r, node, block, n) : emx_no_memory(r);
}
