/* KVCache: keys and values that methods loaded with it share. */
#ifndef EC_PYTHON_KV_CACHE_TYPE_H
#define EC_PYTHON_KV_CACHE_TYPE_H

#include "python/state.h"

struct ec_kv_cache;

extern PyType_Spec ecpy_kv_cache_spec;

/* Returns the cache of a KVCache, or NULL for None; -1 with TypeError for another object. */
int ecpy_parse_kv_cache(ecpy_state *state, PyObject *object, struct ec_kv_cache **out);

#endif
