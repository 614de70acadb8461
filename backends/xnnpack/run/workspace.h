/* Workspaces shared by delegates. */
#ifndef ECX_RUN_WORKSPACE_H
#define ECX_RUN_WORKSPACE_H

#include <pthread.h>
#include <stdbool.h>

#include "call.h"
#include "options.h"

/* Memory for the values between nodes. Users of a shared one hold `lock`. */
typedef struct ecx_workspace {
  struct ecx_workspace *next;
  const void *owner; /* a program, or the address that represents the process; NULL: not shared */
  size_t users;
  pthread_mutex_t lock;
  bool is_lost; /* another thread used it when this process was forked: it stays as it is */
  xnn_workspace_t workspace;
  size_t bytes;
} ecx_workspace;

uint32_t ecx_workspace_open(const ecx_call *c, ecx_sharing sharing, const ec_backend_init *what,
                            ecx_workspace **out);
/* Creates an XNNPACK workspace, for xnn_release_workspace. */
uint32_t ecx_workspace_create(const ecx_call *c, xnn_workspace_t *out);
void ecx_workspace_close(ecx_workspace *w);
/* Locks a shared workspace; does nothing otherwise. `enter` fails for a lost one, which `lock` is
 * not called with. */
void ecx_workspace_lock(ecx_workspace *w);
uint32_t ecx_workspace_enter(const ecx_call *c, ecx_workspace *w);
void ecx_workspace_leave(ecx_workspace *w);

/* The list of shared workspaces during a fork: held before, freed after. */
void ecx_workspaces_hold(void);
void ecx_workspaces_find_lost(void); /* in the child */
void ecx_workspaces_free(void);

#endif
