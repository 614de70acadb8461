/* Threads beyond a CPU quota slow a loop down: once the quota is used up, all threads stop until
 * the period ends, some in the middle of a piece that the others wait for. */
#include "core/cpus.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 4096 }; /* bytes of a path, NUL included */

/* ---- the quota ------------------------------------------------------------------------------- */

/* Reads the first words of a file. Returns false if the file does not exist. */
static bool read_words(const char *folder, const char *group, const char *name, char word[2][32]) {
  char path[LONGEST];
  const size_t length = (size_t)snprintf(path, sizeof path, "%s%s/%s", folder, group, name);
  FILE *file = length < sizeof path ? fopen(path, "re") : NULL; /* a failure is a huge length */
  if (!file) return false;
  word[1][0] = 0;
  const int words = fscanf(file, "%31s %31s", word[0], word[1]);
  fclose(file);
  return words >= 1;
}

/* Returns a positive number, or 0. */
static uint64_t parse_number(const char *word) {
  if (word[0] < '0' || word[0] > '9') return 0; /* "max", -1 */
  return strtoull(word, NULL, 10);
}

/* Returns the quota of one group. */
static size_t quota_of(const char *folder, const char *group, bool is_first_version) {
  char word[2][32], period[2][32] = {"", ""};
  if (is_first_version) {
    if (!read_words(folder, group, "cpu.cfs_quota_us", word)) return 0;
    if (!read_words(folder, group, "cpu.cfs_period_us", period)) return 0;
  } else {
    if (!read_words(folder, group, "cpu.max", word)) return 0;
    memcpy(period[0], word[1], sizeof period[0]);
  }
  const uint64_t quota = parse_number(word[0]), each = parse_number(period[0]);
  if (!quota || !each) return 0;
  return (size_t)(quota / each + (quota % each != 0));
}

static size_t least(size_t a, size_t b) { return !a || (b && b < a) ? b : a; }

/* Returns the smallest quota of a group and its ancestors. In a container the names may be those
 * outside it: a missing folder sets no limit, and the outermost one belongs to the container. */
static size_t quota_up(const char *mounted, const char *below, char *group, bool is_first_version) {
  char folder[LONGEST];
  const size_t length = (size_t)snprintf(folder, sizeof folder, "%s%s", mounted, below);
  if (length >= sizeof folder) return 0; /* or snprintf failed */
  size_t quota = 0;
  if (strstr(group, "/..")) group[0] = 0;
  for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
    *end = 0;
    quota = least(quota, quota_of(folder, group, is_first_version));
  }
  return quota;
}

static bool names_cpu(const char *controllers) {
  char list[LONGEST], *rest = list;
  snprintf(list, sizeof list, "%s", controllers);
  for (char *one; (one = strsep(&rest, ","));)
    if (!strcmp(one, "cpu")) return true;
  return false;
}

size_t ec_cpus_quota(const char *groups, const char *mounted) {
  FILE *file = fopen(groups, "re");
  char line[LONGEST];
  size_t quota = 0;
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) { /* number:controllers:/group */
    char *rest = line;
    line[strcspn(line, "\n")] = 0;
    const char *version = strsep(&rest, ":"), *controllers = rest ? strsep(&rest, ":") : NULL;
    if (!rest) continue;
    if (!strcmp(version, "0") && !controllers[0])
      quota = least(quota, quota_up(mounted, "", rest, false));
    else if (names_cpu(controllers)) quota = least(quota, quota_up(mounted, "/cpu", rest, true));
  }
  fclose(file);
  return quota;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

static size_t quota;

static void read_quota(void) { quota = ec_cpus_quota("/proc/self/cgroup", "/sys/fs/cgroup"); }

size_t ec_cpus_count(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  cpu_set_t set;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  size_t cpus = online > 0 ? (size_t)online : 1;
  pthread_once(&once, read_quota);
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = (size_t)CPU_COUNT(&set);
  return quota && quota < cpus ? quota : cpus;
}
