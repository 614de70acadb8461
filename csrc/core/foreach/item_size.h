/* Element sizes, for loops that only move elements. Includes EC_TEMPLATE once for each, with a type
 * EC_MOVE of that size and EC_MOVE_NAME(name) for function names. */
#include "core/pair16.h"

#define EC_MOVE uint8_t
#define EC_MOVE_NAME(name) name##_1
#include EC_TEMPLATE
#define EC_MOVE uint16_t
#define EC_MOVE_NAME(name) name##_2
#include EC_TEMPLATE
#define EC_MOVE uint32_t
#define EC_MOVE_NAME(name) name##_4
#include EC_TEMPLATE
#define EC_MOVE uint64_t
#define EC_MOVE_NAME(name) name##_8
#include EC_TEMPLATE
#define EC_MOVE ec_pair16
#define EC_MOVE_NAME(name) name##_16
#include EC_TEMPLATE
