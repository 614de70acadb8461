/* Reduces listed rows to one, column by column; each step in float32 or wider. */
static void EC_FN(fold)(const fold *f) {
  EC_C *restrict a = f->acc;
  EC_T *out = f->out;
  int64_t *at = f->at;
  for (int64_t j = 0; j < f->width; j++) a[j] = (EC_C)f->start;
  for (int64_t i = 0; i < f->n; i++) {
    const EC_T *restrict x = (const EC_T *)f->x + f->rows[i] * f->width;
    EC_C w = f->weights ? (EC_C)f->weights[i] : 1;
    for (int64_t j = 0; f->how == EC_COMBINE_ADD && j < f->width; j++) a[j] += w * EC_LOAD(x[j]);
    for (int64_t j = 0; f->how == EC_COMBINE_MUL && j < f->width; j++) a[j] *= EC_LOAD(x[j]);
    for (int64_t j = 0; f->how >= EC_COMBINE_MAX && j < f->width; j++) {
      EC_C v = EC_LOAD(x[j]);
      bool beats = f->how == EC_COMBINE_MAX ? v > a[j] : v < a[j];
      if (at ? beats || i == 0 : beats || v != v) {
        a[j] = v;
        if (at) at[j] = f->rows[i];
      }
    }
  }
  for (int64_t j = 0; j < f->width; j++) out[j] = EC_STORE(a[j] / (EC_C)f->divisor);
}

/* As in eager PyTorch, float16 and bfloat16 round after each step. */
static void EC_FN(add_row)(void *to, const void *from, int64_t width, double scale) {
  EC_T *d = to;
  const EC_T *s = from;
  const EC_C by = EC_LOAD(EC_STORE((EC_C)scale));
  for (int64_t j = 0; j < width; j++) {
    const EC_T term = EC_STORE(by * EC_LOAD(s[j]));
    d[j] = EC_STORE(EC_LOAD(d[j]) + EC_LOAD(term));
  }
}
