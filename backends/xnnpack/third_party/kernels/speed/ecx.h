/* Functions of ours that XNNPACK's patched sources call. */
#ifndef ECX_H
#define ECX_H

#include <pthreadpool.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xnnpack.h"
#include "xnnpack/common.h"
#include "xnnpack/compute.h"

struct gemm_context;
struct xnn_ukernel_igemm;

/* affine.c and the like have none: see configs.def. products.c: makes the kernels of a convolution
 * those of joined groups, if there are such. */
XNN_INTERNAL bool ecx_join_groups(struct xnn_ukernel_igemm* kernel, size_t groups, size_t outputs,
                                  size_t taps, size_t inputs);

/* tiles.c: replace pthreadpool's functions of these names. */
XNN_INTERNAL void ecx_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task,
                                             void* context, size_t m, size_t n, size_t mr,
                                             size_t nc, uint32_t flags);
XNN_INTERNAL void ecx_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task,
                                             void* context, size_t images, size_t m, size_t n,
                                             size_t mr, size_t nc, uint32_t flags);

/* alone.c: returns the pool that runs a step, or NULL. */
XNN_INTERNAL pthreadpool_t ecx_pool_of(const struct compute_parameters* compute,
                                       const void* context, pthreadpool_t pool);

/* steps.c: runs a runtime without threads; returns false if it has to be run as before. Drops the
 * list of a runtime whose steps change. */
XNN_INTERNAL bool ecx_invoke(xnn_runtime_t runtime, enum xnn_status* status);
XNN_INTERNAL void ecx_drop_steps(xnn_runtime_t runtime);

/* first_products.c: whether a step is a product with weights that are not packed yet; runs it. */
XNN_INTERNAL bool ecx_is_deferred(const struct compute_parameters* compute, const void* context);
XNN_INTERNAL enum xnn_status ecx_multiply_deferred(const struct gemm_context* gemm, size_t rows,
                                                   pthreadpool_t pool, uint32_t flags);

/* populate.c: populates the whole pages of a block at once. */
XNN_INTERNAL void ecx_populate(void* block, size_t size);

#endif
