/* The reference's InternalConsistency level: its checks beyond the structure. */
#ifndef EC_FORMAT_PTE_CHECK_H
#define EC_FORMAT_PTE_CHECK_H

#include "format/fb.h"

/* Runs the reference's validate_program: methods and their values exist, tensors have possible
 * sizes and known dtypes, tensor lists refer to tensors. Memory safety does not depend on it,
 * because runtime/ checks its own reads. `program` is the table Program. */
ec_status ec_pte_check_program(ec_fb_table program, ec_error *err);

#endif
