/* Forks of the process: what other threads hold during one. */
#ifndef ECX_RUN_FORKS_H
#define ECX_RUN_FORKS_H

/* Forks wait, from now on, for the packing of weights in other threads; shared workspaces that
 * other threads use are lost to the child (workspace.h). */
void ecx_watch_forks(void);

#endif
