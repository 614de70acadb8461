/* Calls of the payload, as rows of its chain. */
#include "node.h"

#include "fields.h"

ecv_node ecv_node_at(const ecv_payload *p, uint32_t index) {
  const ec_fb_table call = ec_fb_vec_table(p->chain, index);
  return (ecv_node){ec_fb_string(call, ECV_OperatorCall_name),
                    ec_fb_u32(call, ECV_OperatorCall_node_id),
                    ec_fb_vector(call, ECV_OperatorCall_args)};
}
