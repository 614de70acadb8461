/* Undefines the macros of the dtype just included. */
#undef EC_T
#undef EC_C
#undef EC_ACC
#undef EC_U
#undef EC_SUFFIX
#undef EC_ID
#undef EC_LOAD
#undef EC_STORE
#undef EC_IS_FLOAT
#undef EC_IS_COMPLEX
#undef EC_IS_BOOL
#undef EC_IS_SIGNED
#undef EC_LOWEST
#undef EC_HIGHEST
