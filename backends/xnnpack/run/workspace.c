/* Workspaces, by owner. */
#include "run/workspace.h"

#include <stdlib.h>

#include "call.h"
#include "options.h"
#include "status.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static ecx_workspace *list;
static const char process_wide; /* its address is the owner of the workspace shared by all */

uint32_t ecx_workspace_create(const ecx_call *c, xnn_workspace_t *out) {
  enum xnn_status status = xnn_create_workspace(out);
  if (status == xnn_status_success) return EC_BACKEND_OK;
  return ecx_fail(c, ecx_status_code(status), "xnn_create_workspace failed: '%s'",
                  ecx_status_name(status));
}

static uint32_t create_workspace(const ecx_call *c, const void *owner, ecx_workspace **out) {
  ecx_workspace *w = calloc(1, sizeof *w); /* the host's function may wait for other threads */
  if (!w) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a workspace");
  uint32_t status = ecx_workspace_create(c, &w->workspace);
  if (status) {
    free(w);
    return status;
  }
  pthread_mutex_init(&w->lock, NULL);
  w->owner = owner;
  w->users = 1;
  *out = w;
  return EC_BACKEND_OK;
}

uint32_t ecx_workspace_open(const ecx_call *c, ecx_sharing sharing,
                            const ec_backend_init *what, ecx_workspace **out) {
  const void *owner = sharing == ECX_SHARE_GLOBAL    ? &process_wide
                      : sharing == ECX_SHARE_PROGRAM ? what->program
                      : sharing == ECX_SHARE_METHOD  ? what->instance
                                                     : NULL;
  if (!owner) return create_workspace(c, NULL, out);
  uint32_t status = EC_BACKEND_OK;
  pthread_mutex_lock(&list_lock);
  ecx_workspace *w = list;
  while (w && (w->owner != owner || w->is_lost)) w = w->next;
  if (w) {
    w->users++;
    *out = w;
  } else if (!(status = create_workspace(c, owner, out))) {
    (*out)->next = list;
    list = *out;
  }
  pthread_mutex_unlock(&list_lock);
  return status;
}

void ecx_workspace_close(ecx_workspace *w) {
  pthread_mutex_lock(&list_lock);
  bool last = --w->users == 0;
  for (ecx_workspace **at = &list; last && *at; at = &(*at)->next)
    if (*at == w) {
      *at = w->next;
      break;
    }
  pthread_mutex_unlock(&list_lock);
  if (!last || w->is_lost) return;
  xnn_release_workspace(w->workspace);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

void ecx_workspace_lock(ecx_workspace *w) {
  if (w->owner) pthread_mutex_lock(&w->lock);
}

uint32_t ecx_workspace_enter(const ecx_call *c, ecx_workspace *w) {
  if (w->is_lost)
    return ecx_fail(c, EC_BACKEND_INVALID_STATE,
                    "a delegate that shares this one's workspace was running in another thread "
                    "when this process was forked: load its program again");
  ecx_workspace_lock(w);
  return EC_BACKEND_OK;
}

void ecx_workspace_leave(ecx_workspace *w) {
  if (w->owner) pthread_mutex_unlock(&w->lock);
}

/* ---- forks ----------------------------------------------------------------------------------- */

void ecx_workspaces_hold(void) { pthread_mutex_lock(&list_lock); }

void ecx_workspaces_find_lost(void) {
  for (ecx_workspace *w = list; w; w = w->next)
    if (!w->is_lost && pthread_mutex_trylock(&w->lock) == 0) pthread_mutex_unlock(&w->lock);
    else w->is_lost = true;
}

void ecx_workspaces_free(void) { pthread_mutex_unlock(&list_lock); }
