/* Functions of gamma's family that compute in double whatever the dtype is. */
#ifndef EC_KERNELS_SPECIAL_GAMMA_H
#define EC_KERNELS_SPECIAL_GAMMA_H

#include <stdbool.h>
#include <stddef.h>

#define EC_COUNT(table) (sizeof(table) / sizeof *(table))

/* Hurwitz's zeta function. */
double ec_zeta(double x, double q);

/* The regularised incomplete gamma function of a: lower (P) or upper (Q). */
double ec_gamma_ratio(double a, double x, bool upper);

#endif
