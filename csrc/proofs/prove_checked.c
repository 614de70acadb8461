/* core/checked.h equals arithmetic in 128 bits: the exact result, or a refusal if it does
 * not fit. */
#include "core/checked.h"
#include "proofs/prove.h"

typedef __int128 wide;
typedef unsigned __int128 natural;

static void prove_sizes(void) {
  size_t a, b, out;
  const bool added = ec_add_size(a, b, &out);
  prove(added == ((natural)a + b <= SIZE_MAX), "a sum is refused exactly if it does not fit");
  prove(!added || out == (natural)a + b, "a sum is exact");
}

static void prove_integers(void) {
  int64_t a, b, out;
  const bool added = ec_add_i64(a, b, &out);
  const wide sum = (wide)a + b;
  prove(added == (sum >= INT64_MIN && sum <= INT64_MAX), "a sum is refused if it does not fit");
  prove(!added || out == sum, "a sum is exact");
}

/* Of products, one factor is known, the size of an element: two unknown ones of 64 bits are beyond
 * a SAT solver. */
static void prove_factor(int64_t factor) {
  size_t a, product;
  int64_t b, signed_product;
  const natural expected = (natural)a * (uint64_t)factor;
  const bool fits = ec_mul_size(a, (size_t)factor, &product);
  prove(fits == (expected <= SIZE_MAX), "a product is refused exactly if it does not fit");
  prove(!fits || product == expected, "a product is exact");
  const wide exact = (wide)b * factor;
  const bool signed_fits = ec_mul_i64(b, factor, &signed_product);
  prove(signed_fits == (exact >= INT64_MIN && exact <= INT64_MAX), "with a sign, too");
  prove(!signed_fits || signed_product == exact, "and is exact");
}

static void prove_products(void) {
  for (int shift = 0; shift <= 4; shift++) prove_factor((int64_t)1 << shift);
}

static void prove_ranges(void) {
  uint64_t offset, size, total;
  int64_t a, b;
  prove(ec_in_range(offset, size, total) == ((natural)offset + size <= total),
        "a range is inside exactly if its end is");
  prove(ec_min_i64(a, b) <= a && ec_min_i64(a, b) <= b, "a minimum is below both");
  prove(ec_min_i64(a, b) == a || ec_min_i64(a, b) == b, "a minimum is one of both");
  prove(ec_max_i64(a, b) >= a && ec_max_i64(a, b) >= b, "a maximum is above both");
  prove(ec_max_i64(a, b) == a || ec_max_i64(a, b) == b, "a maximum is one of both");
}

int main(void) { EC_PROVE(); }
