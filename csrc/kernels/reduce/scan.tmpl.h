/* Running results along one dimension, defined by EC_START and EC_NEXT(accumulated, value). Steps
 * are in elements. */
#include "kernels/reduce/wide.tmpl.h"

static void EC_MFN(line)(const scan_line *l) {
  EC_T *out = (EC_T *)l->dst;
  const EC_T *x = (const EC_T *)l->src;
  EC_WIDE a = EC_START;
  for (int64_t i = 0; i < l->n; i++) {
    a = EC_NEXT(a, (EC_WIDE)EC_LOAD(x[i * l->ss]));
    out[i * l->ds] = EC_STORE((EC_C)a);
  }
}

/* Lines beside each other: the additions of one wait for each other. */
static void EC_MFN(lines)(const scan_line *l) {
  EC_T *out = (EC_T *)l->dst;
  const EC_T *x = (const EC_T *)l->src;
  EC_WIDE a[SCAN_LINES];
  for (int64_t j = 0; j < SCAN_LINES; j++) a[j] = EC_START;
  for (int64_t i = 0; i < l->n; i++)
    for (int64_t j = 0; j < SCAN_LINES; j++) {
      a[j] = EC_NEXT(a[j], (EC_WIDE)EC_LOAD(x[i * l->ss + j * l->next_src]));
      out[i * l->ds + j * l->next_dst] = EC_STORE((EC_C)a[j]);
    }
}

/* Adjacent lines at once, each with its own accumulator. */
static void EC_MFN(scan)(const scan_line *l) {
  EC_T *out = (EC_T *)l->dst;
  const EC_T *x = (const EC_T *)l->src;
  EC_WIDE a[SCAN_COLUMNS];
  if (l->k == 1 || l->next_src) {
    (l->k == 1 ? EC_MFN(line) : EC_MFN(lines))(l);
    return;
  }
  for (int64_t j = 0; j < l->k; j++) a[j] = EC_START;
  for (int64_t i = 0; i < l->n; i++)
    for (int64_t j = 0; j < l->k; j++) {
      a[j] = EC_NEXT(a[j], (EC_WIDE)EC_LOAD(x[i * l->ss + j]));
      out[i * l->ds + j] = EC_STORE((EC_C)a[j]);
    }
}
