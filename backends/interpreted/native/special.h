/* Operators of payloads that become several calls. */
#ifndef ECN_SPECIAL_H
#define ECN_SPECIAL_H

#include "step.h"

typedef uint32_t ecn_special(const ecn_step *s);

ecn_special ecn_call_matmul, ecn_call_attention;

#endif
