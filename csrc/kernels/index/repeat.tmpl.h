/* Repeats without a branch on the count. Each position marks its first output (of several with the
 * same one, the last wins); then every output takes the latest mark. */
static void EC_FN(repeat)(int64_t n, const int64_t *times, int64_t total, void *out) {
  EC_T *to = out, last = 0;
  memset(to, 0, (size_t)total * sizeof *to);
  for (int64_t i = 0, at = 0; i < n && at < total; i++) {
    to[at] = (EC_T)i;
    at += times[i];
  }
  for (int64_t at = 0; at < total; at++) to[at] = last = to[at] > last ? to[at] : last;
}
