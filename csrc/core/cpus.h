/* CPUs available to this process: the default number of threads. */
#ifndef EC_CORE_CPUS_H
#define EC_CORE_CPUS_H

#include <stddef.h>

/* Returns the number of CPUs in the process's affinity mask (and cpuset), limited to the CPU quota
 * of its control groups, rounded up; at least 1. The quota is read once. */
size_t ec_cpus_count(void);

/* Returns the CPUs that a quota allows, or 0 without a limit. Reads the control groups named in the
 * file `groups` (/proc/self/cgroup) and their ancestors under the folder `mounted`
 * (/sys/fs/cgroup), version 1 or 2. */
size_t ec_cpus_quota(const char *groups, const char *mounted);

#endif
