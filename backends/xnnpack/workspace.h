/* Workspaces shared by delegates. */
#ifndef ECX_WORKSPACE_H
#define ECX_WORKSPACE_H

#include <pthread.h>

#include "call.h"
#include "options.h"

/* Memory for the values between nodes. Users of a shared one hold `lock`. */
typedef struct ecx_workspace {
  struct ecx_workspace *next;
  const void *owner; /* a program, or the address that represents the process; NULL: not shared */
  size_t users;
  pthread_mutex_t lock;
  xnn_workspace_t workspace;
  size_t bytes;
} ecx_workspace;

uint32_t ecx_workspace_open(const ecx_call *c, ecx_sharing sharing, const ec_backend_init *what,
                            ecx_workspace **out);
/* Creates an XNNPACK workspace, for xnn_release_workspace. */
uint32_t ecx_workspace_create(const ecx_call *c, xnn_workspace_t *out);
void ecx_workspace_close(const ec_host *host, ecx_workspace *w);
/* Locks a shared workspace; does nothing otherwise. */
void ecx_workspace_enter(ecx_workspace *w);
void ecx_workspace_leave(ecx_workspace *w);

#endif
