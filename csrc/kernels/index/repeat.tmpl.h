/* Without a branch on how often: a position is marked at the place where it begins (of several that
 * begin at one, the last is there), then every place takes the mark that was last. */
static void EC_FN(repeat)(int64_t n, const int64_t *times, int64_t total, void *out) {
  EC_T *to = out, last = 0;
  memset(to, 0, (size_t)total * sizeof *to);
  for (int64_t i = 0, at = 0; i < n && at < total; i++) {
    to[at] = (EC_T)i;
    at += times[i];
  }
  for (int64_t at = 0; at < total; at++) to[at] = last = to[at] > last ? to[at] : last;
}
