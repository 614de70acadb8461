/* A method of a verified graph, as an ect_graph. */
#ifndef ECN_METHOD_H
#define ECN_METHOD_H

#include "../graph.h"
#include "format/fb.h"

/* Data of constants that is not the program's named data. */
typedef struct ecn_data ecn_data;
struct ecn_data {
  /* Finds the elements of a constant, or the initial ones of state, which have to have its dtype
   * and sizes. */
  uint32_t (*find)(const ecn_data *self, ect_graph *g, ect_text key, const ect_operand *o,
                   ect_group *group);
};

/* Fills an empty graph. `mutated` has the keys of constants that are state; `data` may be NULL. */
uint32_t ecn_read_method(ect_graph *g, ec_fb_table method, const ect_names *mutated,
                         const ecn_data *data);
/* A function of ect_format. */
void ecn_note_bounds(const ect_graph *g, const ect_operand *o, ect_note *note);

#endif
