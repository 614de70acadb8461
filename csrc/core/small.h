/* Small builds (EC_SMALL, made by `executorch-c selective`) leave out traces, load-time
 * delegation, constant folding, joined and fused calls, records of loops, programs inside
 * payloads, packages, the second level of verification (memory safety does not depend on it), KV
 * caches, state that methods share, copies of a method's state, lists in messages about backends,
 * what missing backends need, and variants of loops for single instruction sets or sizes. */
#ifndef EC_CORE_SMALL_H
#define EC_CORE_SMALL_H

#ifdef EC_SMALL
enum { EC_IS_SMALL = 1 };
#else
enum { EC_IS_SMALL = 0 };
#endif

#endif
