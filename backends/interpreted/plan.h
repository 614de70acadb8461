/* Memory of computed tensors and of state: offsets into two arenas. */
#ifndef ECT_PLAN_H
#define ECT_PLAN_H

#include "values.h"

enum { ECT_WORK = 1, ECT_KEPT = 2, ECT_ARENAS = 3 }; /* memory ids; 0 is unused */

typedef struct ect_plan {
  uint64_t *offsets; /* by tensor */
  uint64_t sizes[ECT_ARENAS];
} ect_plan;

/* Plans memory: tensors whose values are needed at different times share it. Returns false without
 * memory, or if sizes overflow. */
bool ect_plan_memory(ect_program *p, ect_plan *out);
void ect_plan_free(const ec_host *host, ect_plan *plan);

#endif
