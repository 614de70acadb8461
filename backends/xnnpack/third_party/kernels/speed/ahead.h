/* Kernels of one row ask for weights 8 KB ahead, for the second-level cache: as memory that is read
 * once (prefetchnta), Xeons fetch it at half the speed. XNNPACK's ask for those 768 to 960 bytes
 * ahead. */
#ifndef ECX_AHEAD_H
#define ECX_AHEAD_H

#include "xnnpack/prefetch.h"

#define xnn_prefetch_to_l1(at) __builtin_prefetch((const int8_t*) (at) + 8192 - 768, 0, 2)

#endif
