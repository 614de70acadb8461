/* Loops that combine new elements with existing ones: EC_JOIN(x, y), starting at EC_IDENTITY. */
#if EC_IS_FLOAT || EC_IS_COMPLEX
#define IS_NAN(v) ((v) != (v))
#define EC_WRAP EC_C
#else
#define IS_NAN(v) false
#define EC_WRAP uint64_t /* integers wrap around; bools combine to "any" and "all" */
#endif

static void EC_MFN(indexed)(const ec_indexed *loop) {
  for (int64_t j = 0; j < loop->n; j++) {
    EC_T *d = (EC_T *)(loop->dst + j * loop->dst_step + loop->at[j] * loop->dst_at);
    const EC_T *s = (const EC_T *)(loop->src + j * loop->src_step + loop->at[j] * loop->src_at);
    EC_C x = EC_LOAD(*d), y = EC_LOAD(*s);
    EC_WRAP joined = (EC_WRAP)EC_JOIN(x, y);
    *d = EC_STORE((EC_C)joined);
  }
}

static void EC_MFN(identity)(char *to) { *(EC_T *)to = EC_STORE((EC_C)EC_IDENTITY); }

#undef IS_NAN
#undef EC_WRAP
