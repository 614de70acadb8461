/* Are floats finite? */
#ifndef ECX_RUN_FINITE_H
#define ECX_RUN_FINITE_H

#include <stdbool.h>
#include <stddef.h>

/* True if one of `count` floats is infinite or NaN; many are read by all threads of `pool` (a
 * pthreadpool_t, or NULL). */
bool ecx_has_nonfinite(const void *floats, size_t count, void *pool);

#endif
