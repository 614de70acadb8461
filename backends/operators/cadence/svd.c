/* Singular values and vectors: rotations make the columns of a tall matrix orthogonal (one-sided
 * Jacobi), in double. A wide matrix is transposed. */
#include "svd.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>

enum { SWEEPS = 40 /* eight are usual */ };

/* Columns are contiguous. `left` begins as the matrix; its other columns complete the basis. */
typedef struct svd_item {
  int64_t rows, columns, basis; /* of the tall matrix; of `left` */
  double *left, *right, *values;
} svd_item;

typedef struct svd_task {
  const cad_tensor *a, *u, *s, *vh;
  int64_t rows, columns; /* of the argument */
  svd_item shape;
  double *memory;
  int64_t each; /* doubles in the memory of an item */
  atomic_bool infinite;
} svd_task;

static double svd_dot(int64_t n, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static void svd_rotate(int64_t n, double *x, double *y, double cosine, double sine) {
  for (int64_t i = 0; i < n; i++) {
    const double first = x[i];
    x[i] = cosine * first - sine * y[i];
    y[i] = sine * first + cosine * y[i];
  }
}

/* Makes two columns orthogonal; returns false if they were. */
static bool svd_pair(const svd_item *p, int64_t i, int64_t j) {
  double *x = p->left + i * p->rows, *y = p->left + j * p->rows;
  const double xx = svd_dot(p->rows, x, x), yy = svd_dot(p->rows, y, y);
  const double xy = svd_dot(p->rows, x, y);
  if (!(fabs(xy) > DBL_EPSILON * sqrt((double)p->rows) * sqrt(xx) * sqrt(yy))) return false;
  const double zeta = (yy - xx) / (2 * xy);
  const double tangent = copysign(1 / (fabs(zeta) + hypot(1, zeta)), zeta);
  const double cosine = 1 / hypot(1, tangent);
  svd_rotate(p->rows, x, y, cosine, cosine * tangent);
  svd_rotate(p->columns, p->right + i * p->columns, p->right + j * p->columns, cosine,
             cosine * tangent);
  return true;
}

static void svd_swap(int64_t n, double *x, double *y) {
  for (int64_t i = 0; i < n; i++) {
    const double first = x[i];
    x[i] = y[i];
    y[i] = first;
  }
}

/* Sets the values, the norms of the columns, and puts the greatest first. */
static void svd_sort(const svd_item *p) {
  for (int64_t j = 0; j < p->columns; j++) {
    const double *x = p->left + j * p->rows;
    p->values[j] = sqrt(svd_dot(p->rows, x, x));
    for (int64_t i = j; i > 0 && p->values[i] > p->values[i - 1]; i--) {
      svd_swap(1, p->values + i, p->values + i - 1);
      svd_swap(p->rows, p->left + i * p->rows, p->left + (i - 1) * p->rows);
      svd_swap(p->columns, p->right + i * p->columns, p->right + (i - 1) * p->columns);
    }
  }
}

/* Makes column `j` orthogonal to those before it and of norm 1; returns false if what remains of
 * it is not above `least`. */
static bool svd_project(const svd_item *p, int64_t j, double least) {
  double *x = p->left + j * p->rows;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t k = 0; k < j; k++) {
      const double *y = p->left + k * p->rows, part = svd_dot(p->rows, x, y);
      for (int64_t i = 0; i < p->rows; i++) x[i] -= part * y[i];
    }
    const double norm = sqrt(svd_dot(p->rows, x, x));
    if (!(norm > (pass ? 0 : least))) return false;
    for (int64_t i = 0; i < p->rows; i++) x[i] /= norm;
  }
  return true;
}

/* Makes `left` orthonormal. Columns that are rounding errors, and those of a full basis, become
 * what is left of an axis. An axis that is refused has a part of at most 1 / (2 rows) outside the
 * columns so far, and later no more: one of the axes after it always has more. */
static void svd_complete(const svd_item *p) {
  const double tiny = p->columns ? p->values[0] * (double)p->rows * DBL_EPSILON : 0;
  const double least = sqrt(0.5 / (double)p->rows);
  for (int64_t j = 0, axis = 0; j < p->basis; j++) {
    double *x = p->left + j * p->rows;
    bool done = j < p->columns && p->values[j] > tiny && svd_project(p, j, tiny);
    for (; !done && axis < p->rows; axis++) {
      for (int64_t i = 0; i < p->rows; i++) x[i] = i == axis;
      done = svd_project(p, j, least);
    }
  }
}

static void svd_decompose(const svd_item *p) {
  for (int64_t j = 0; j < p->columns; j++)
    for (int64_t i = 0; i < p->columns; i++) p->right[i + j * p->columns] = i == j;
  bool more = true;
  for (int sweep = 0; more && sweep < SWEEPS; sweep++) {
    more = false;
    for (int64_t i = 0; i + 1 < p->columns; i++)
      for (int64_t j = i + 1; j < p->columns; j++) more = svd_pair(p, i, j) || more;
  }
  svd_sort(p);
  svd_complete(p);
}

/* Writes columns as the rows of matrix `item` of `t`, or as its columns. */
static void svd_write(const cad_tensor *t, size_t item, const double *columns, int64_t count,
                      int64_t length, bool as_rows) {
  float *out = (float *)t->data + (int64_t)item * count * length;
  for (int64_t j = 0; j < count; j++)
    for (int64_t i = 0; i < length; i++)
      out[as_rows ? j * length + i : i * count + j] = (float)columns[j * length + i];
}

static void svd_range(void *user, size_t begin, size_t end) {
  svd_task *p = user;
  for (size_t item = begin; item < end; item++) {
    svd_item it = p->shape;
    const bool wide = p->rows < p->columns;
    const float *a = (const float *)p->a->data + (int64_t)item * p->rows * p->columns;
    it.left = p->memory + (int64_t)item * p->each;
    it.right = it.left + it.rows * it.basis;
    it.values = it.right + it.columns * it.columns;
    bool finite = true;
    for (int64_t j = 0; j < it.columns; j++)
      for (int64_t i = 0; i < it.rows; i++) {
        const float x = a[wide ? j * it.rows + i : i * it.columns + j];
        it.left[j * it.rows + i] = (double)x;
        finite = finite && isfinite(x);
      }
    if (!finite) {
      atomic_store(&p->infinite, true);
      continue;
    }
    svd_decompose(&it);
    svd_write(wide ? p->vh : p->u, item, it.left, it.basis, it.rows, wide);
    svd_write(wide ? p->u : p->vh, item, it.right, it.columns, it.columns, !wide);
    svd_write(p->s, item, it.values, it.columns, 1, true);
  }
}

/* Sets the outputs: U [..., m, m or k], S [..., k], Vh [..., n or k, n]. */
static uint32_t svd_outputs(const cad_call *c, svd_task *p) {
  const int64_t m = p->rows, n = p->columns, k = m < n ? m : n;
  const bool full = c->args[1].as.b;
  const size_t rank = p->a->rank;
  int64_t sizes[CAD_RANK];
  for (size_t d = 0; d < rank; d++) sizes[d] = p->a->sizes[d];
  sizes[rank - 1] = full ? m : k;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 4, CAD_FLOAT, rank, sizes, &p->u));
  sizes[rank - 2] = k;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 5, CAD_FLOAT, rank - 1, sizes, &p->s));
  sizes[rank - 2] = full ? n : k;
  sizes[rank - 1] = n;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 6, CAD_FLOAT, rank, sizes, &p->vh));
  p->shape.rows = m < n ? n : m;
  p->shape.columns = k;
  p->shape.basis = full ? p->shape.rows : k;
  return EC_BACKEND_OK;
}

/* The argument `compute_uv` is True in programs of the flow, as its reference demands. */
uint32_t cad_linalg_svd(const cad_call *c) {
  svd_task p = {.infinite = false};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "A", CAD_FLOAT, -1, &p.a));
  if (p.a->rank < 2)
    return EC_ARG_FAIL(c, "'A' has %u dimensions, expected 2", (unsigned)p.a->rank);
  if (!c->args[2].as.b) return EC_ARG_FAIL(c, "'compute_uv' is False, expected True");
  if (c->args[3].kind != EC_BACKEND_NONE)
    return EC_ARG_FAIL(c, "'driver' is given, but drivers exist only on GPUs");
  int64_t count = 1;
  for (size_t d = 0; d + 2 < p.a->rank; d++) count *= p.a->sizes[d];
  p.rows = p.a->sizes[p.a->rank - 2];
  p.columns = p.a->sizes[p.a->rank - 1];
  EC_BACKEND_TRY(svd_outputs(c, &p));
  const svd_item *s = &p.shape;
  int64_t total;
  p.each = s->rows * s->basis + s->columns * s->columns + s->columns;
  if (__builtin_mul_overflow(count, p.each, &total)) return EC_ARG_FAIL(c, "too large");
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, total, sizeof(double), &p.memory));
  const double cost = 8.0 * (double)s->rows * (double)s->basis * (double)s->columns;
  EC_ARG_PARALLEL(c, count, cost, svd_range, &p);
  if (atomic_load(&p.infinite)) return EC_ARG_FAIL(c, "'A' has elements that are not finite");
  return EC_BACKEND_OK;
}
