/* CPUs that this process may keep busy, which is what decides how many threads it has. */
#ifndef EC_CORE_CPUS_H
#define EC_CORE_CPUS_H

#include <stddef.h>

/* Those of its affinity (and cpuset), at most as many as the CPU quota of its control groups comes
 * to, rounded up; at least 1. The quota is read once. */
size_t ec_cpus_count(void);

/* CPUs that a quota allows: of the control groups that the file `groups` (/proc/self/cgroup) names,
 * under the folder `mounted` (/sys/fs/cgroup), version 1 or 2, and of the groups around them.
 * 0: there is no limit. */
size_t ec_cpus_quota(const char *groups, const char *mounted);

#endif
