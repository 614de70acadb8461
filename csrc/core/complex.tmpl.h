/* The functions of core/complex.h for parts of type EC_PART. */
static inline EC_PART _Complex EC_CFN(ec_times)(EC_PART _Complex x, EC_PART _Complex y) {
  EC_PART _Complex z;
  __real__ z = __real__ x * __real__ y - __imag__ x * __imag__ y;
  __imag__ z = __real__ x * __imag__ y + __imag__ x * __real__ y;
  return z;
}

/* Divides both sides by the larger part of the divisor, so that nothing is squared (R. L. Smith,
 * Algorithm 116). For a zero divisor, both parts are divided by an unsigned 0. */
static inline EC_PART _Complex EC_CFN(ec_over)(EC_PART _Complex x, EC_PART _Complex y) {
  const EC_PART a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
  const bool flat = EC_FABS(c) >= EC_FABS(d), zero = flat & (c == 0);
  const EC_PART large = flat ? c : d, small = flat ? d : c;
  const EC_PART first = flat ? a : b, second = flat ? b : a;
  const EC_PART ratio = small / large, scale = 1 / (large + small * ratio);
  const EC_PART moved = first * ratio, up = second - moved, down = moved - second;
  EC_PART _Complex z;
  __real__ z = zero ? a * (EC_PART)INFINITY : (first + second * ratio) * scale;
  __imag__ z = zero ? b * (EC_PART)INFINITY : (flat ? up : down) * scale;
  return z;
}

/* log(1 + x). The factor compensates for the rounding of the sum. */
static inline EC_PART _Complex EC_CFN(ec_log1p)(EC_PART _Complex x) {
  const EC_PART _Complex sum = x + 1, kept = sum - 1;
  if (sum == 1) return x;
  if (kept == x) return EC_CLOG(sum);
  return EC_CFN(ec_times)(EC_CLOG(sum), EC_CFN(ec_over)(x, kept));
}

#undef EC_PART
#undef EC_CFN
#undef EC_FABS
#undef EC_CLOG
