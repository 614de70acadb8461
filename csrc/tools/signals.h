/* Signals that end the process: a sentence with the operator. */
#ifndef EC_TOOLS_SIGNALS_H
#define EC_TOOLS_SIGNALS_H

/* Makes SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT print their name and the operator that runs,
 * before they end the process as without it. `model` is named, and must outlive the process. */
void signals_name(const char *model);

#endif
