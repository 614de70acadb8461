/* Undefines the macros of the loop just written. */
#undef EC_NAME
#undef EC_EXPR
#undef EC_PREDICATE
#undef EC_OUT
#undef EC_PUT
#undef EC_P
#undef EC_PARAM
#undef EC_AT
#undef EC_LOOP
#undef EC_LOOP_CLONES
#undef EC_LOOP_FLOAT_CLONES
