/* One conversion: EC_FROM_T as stored -> EC_CONVERT -> EC_T as stored. */
EC_CAST_CLONES static void EC_FROM_FN(cast)(int64_t n, char *dst, int64_t dst_step, const char *src,
                             int64_t src_step) {
  if (dst_step == (int64_t)sizeof(EC_T) && src_step == (int64_t)sizeof(EC_FROM_T)) {
    EC_T *d = (EC_T *)(void *)dst;
    const EC_FROM_T *s = (const EC_FROM_T *)(const void *)src;
    for (int64_t i = 0; i < n; i++) d[i] = EC_CONVERT(s[i]);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const EC_FROM_T x = *(const EC_FROM_T *)(const void *)(src + i * src_step);
    *(EC_T *)(void *)(dst + i * dst_step) = EC_CONVERT(x);
  }
}

#undef EC_FROM
#undef EC_FROM_T
#undef EC_CONVERT
