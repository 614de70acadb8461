/* torch's result-type rules, by categories and widths instead of a 15 x 15 table. */
#include "kernels/promote.h"

static int dtype_category(ec_dtype d) {
  if (ec_is_floating(d) || ec_is_float8(d)) return 2;
  return ec_is_complex(d) ? 3 : ec_is_integral(d) ? 1 : 0;
}

/* True for uint16, uint32 and uint64, which torch promotes only to floating point. */
static bool is_barebones(ec_dtype d) {
  return d == EC_UINT16 || d == EC_UINT32 || d == EC_UINT64;
}

static ec_dtype promote_integers(ec_dtype a, ec_dtype b) {
  if (a == EC_UINT8 || b == EC_UINT8) {
    ec_dtype other = a == EC_UINT8 ? b : a;
    return other == EC_INT8 ? EC_INT16 : other;
  }
  return ec_dtype_size(a) > ec_dtype_size(b) ? a : b;
}

/* Promotes two different floating types. float16 and bfloat16 promote to float32. */
static ec_dtype promote_floats(ec_dtype a, ec_dtype b) {
  if (a == EC_FLOAT64 || b == EC_FLOAT64) return EC_FLOAT64;
  return EC_FLOAT32;
}

bool ec_promote_types(ec_dtype a, ec_dtype b, ec_dtype *out) {
  *out = a;
  if (a == b) return true;
  if (ec_is_float8(a) || ec_is_float8(b)) return false;
  ec_dtype high = dtype_category(a) >= dtype_category(b) ? a : b, low = high == a ? b : a;
  *out = high;
  if ((is_barebones(a) || is_barebones(b)) && dtype_category(high) != 2) return false;
  if (dtype_category(high) == 3) {
    if (low == EC_FLOAT64 || low == EC_COMPLEX128) *out = EC_COMPLEX128;
  } else if (dtype_category(high) == dtype_category(low)) {
    *out = dtype_category(high) == 2 ? promote_floats(a, b) : promote_integers(a, b);
  }
  return true;
}

bool ec_can_cast(ec_dtype from, ec_dtype to) {
  int f = dtype_category(from), t = dtype_category(to);
  return f <= t || (f == 0) || (f == 1 && t == 1);
}

ec_dtype ec_scalar_dtype(ec_scalar s) {
  return s.kind == EC_KIND_DOUBLE ? EC_FLOAT32 : s.kind == EC_KIND_BOOL ? EC_BOOL : EC_INT64;
}

static void add_dtype(ec_result_type *r, uint8_t *slot, ec_dtype d) {
  ec_dtype both = d;
  if (*slot && !ec_promote_types((ec_dtype)(*slot - 1), d, &both)) r->impossible = true;
  *slot = (uint8_t)(both + 1);
}

void ec_result_add_tensor(ec_result_type *r, const ec_tensor *t) {
  add_dtype(r, t->rank ? &r->dim : &r->zero, ec_tensor_dtype(t));
}

void ec_result_add_scalar(ec_result_type *r, ec_scalar s) {
  add_dtype(r, &r->number, ec_scalar_dtype(s));
}

static ec_dtype to_complex(ec_dtype d) { return d == EC_FLOAT64 ? EC_COMPLEX128 : EC_COMPLEX64; }

/* Combines two classes. The lower one counts only if its category is higher. */
static uint8_t combine_categories(uint8_t higher, uint8_t lower) {
  if (!higher || !lower) return higher ? higher : lower;
  ec_dtype h = (ec_dtype)(higher - 1), l = (ec_dtype)(lower - 1);
  if (dtype_category(l) <= dtype_category(h)) return higher;
  return dtype_category(h) == 2 ? (uint8_t)(to_complex(h) + 1) : lower;
}

ec_status ec_result_dtype(ec_call *c, const ec_result_type *r, ec_dtype *out) {
  uint8_t id = combine_categories(r->dim, combine_categories(r->zero, r->number));
  if (r->impossible || !id)
    return ec_fail(c->err, EC_INVALID_ARGUMENT,
                   "the operands have no common dtype (uint16, uint32 and uint64 promote to "
                   "floating point only, float8 to nothing)");
  *out = (ec_dtype)(id - 1);
  return EC_OK;
}

static void add_argument(ec_call *c, size_t i, ec_result_type *r) {
  if (c->args[i]->kind == EC_KIND_TENSOR) ec_result_add_tensor(r, ec_arg_tensor(c, i));
  else if (!ec_arg_is_none(c, i)) ec_result_add_scalar(r, ec_arg_scalar(c, i));
}

ec_status ec_call_promote(ec_call *c, size_t i, size_t j, ec_dtype *out) {
  ec_result_type r = {0};
  add_argument(c, i, &r);
  add_argument(c, j, &r);
  return ec_result_dtype(c, &r, out);
}

ec_status ec_call_check_cast(ec_call *c, size_t i, ec_dtype result) {
  ec_dtype actual = ec_tensor_dtype(ec_arg_tensor(c, i));
  if (ec_can_cast(result, actual)) return EC_OK;
  return ec_call_fail(c, i, "dtype %s cannot hold a result of dtype %s", ec_dtype_name(actual),
                      ec_dtype_name(result));
}
