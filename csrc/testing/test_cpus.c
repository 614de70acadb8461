/* core/cpus.h: quotas of control groups, in folders like those of the kernel. */
#include "core/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing/test.h"

enum { FILES = 4 };

typedef struct group_case {
  const char *groups; /* content of /proc/self/cgroup */
  const char *files[FILES][2];
  size_t cpus;
} group_case;

static const group_case cases[] = {
  {"0::/\n", {{"cpu.max", "max 100000\n"}}, 0},
  {"0::/\n", {{"cpu.max", "200000 100000\n"}}, 2},
  {"0::/\n", {{"cpu.max", "150000 100000\n"}}, 2},
  {"0::/\n", {{"cpu.max", "0200000 0100000\n"}}, 2}, /* decimal */
  {"0::/\n", {{"cpu.max", "0200000 100000\n"}}, 2},
  {"0::/\n", {{"cpu.max", "1000 100000\n"}}, 1},
  {"0::/a/b\n", {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "300000 100000\n"}}, 3},
  {"0::/a/b\n", {{"a/b/cpu.max", "100000 50000\n"}, {"a/cpu.max", "300000 100000\n"}}, 2},
  {"0::/a/b\n", {{"cpu.max", "400000 100000\n"}}, 4}, /* names from outside of a container */
  {"0::/../../a\n", {{"cpu.max", "400000 100000\n"}, {"a/cpu.max", "1 1\n"}}, 4},
  {"4:memory:/m\n2:cpu,cpuacct:/a\n0::/\n",
   {{"cpu/a/cpu.cfs_quota_us", "250000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
   3},
  {"2:cpuacct,cpu:/a\n",
   {{"cpu/a/cpu.cfs_quota_us", "-1\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
   0},
  {"2:cpu:/a\n", {{"cpu/a/cpu.cfs_quota_us", "50000\n"}}, 0}, /* no period */
  {"0:memory:/\n", {{"cpu.max", "200000 100000\n"}}, 0},
  {"0::/a/b\n", {{"a/b/cpu.max", "100000 50000\n"}, {"a/cpu.max", "100000 100000\n"}}, 1},
  {"2:cpuset:/a\n",
   {{"cpu/a/cpu.cfs_quota_us", "50000\n"}, {"cpu/a/cpu.cfs_period_us", "100000\n"}},
   0},
  {"0::/\n", {{"cpu.max", "200000 0\n"}}, 0},
  {"0::/\n", {{"cpu.max", "\n"}}, 0},
  {"0::/\n", {{"cpu.max", "many 100000\n"}}, 0},
  {"", {{"cpu.max", "100000 100000\n"}}, 0},
  {"0:\n\n:::\n0", {{"cpu.max", "100000 100000\n"}}, 0},
};

static void write_file(ec_test *t, const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  EC_CHECK(t, file != NULL);
  if (!file) return;
  EC_CHECK(t, fputs(text, file) >= 0);
  fclose(file);
}

static void check_case(ec_test *t, const group_case *one, const char *root) {
  static const char *const folders[] = {"/a", "/a/b", "/cpu", "/cpu/a"};
  char path[256], groups[256];
  mkdir(root, 0700);
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    mkdir(path, 0700);
  }
  snprintf(groups, sizeof groups, "%s/groups", root);
  write_file(t, groups, one->groups);
  for (size_t i = 0; i < FILES && one->files[i][0]; i++) {
    snprintf(path, sizeof path, "%s/%s", root, one->files[i][0]);
    write_file(t, path, one->files[i][1]);
  }
  EC_CHECK(t, ec_cpus_quota(groups, root) == one->cpus);
  for (size_t i = 0; i < FILES && one->files[i][0]; i++) {
    snprintf(path, sizeof path, "%s/%s", root, one->files[i][0]);
    unlink(path);
  }
  unlink(groups);
  for (size_t i = sizeof folders / sizeof *folders; i-- > 0;) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    rmdir(path);
  }
  EC_CHECK(t, rmdir(root) == 0);
}

void ec_test_cpus_quota(ec_test *t) {
  char root[] = "/tmp/executorch_c_cpus_XXXXXX";
  EC_CHECK(t, mkdtemp(root) != NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(t, &cases[i], root);
  EC_CHECK(t, ec_cpus_quota("/no/such/file", "/no/such/folder") == 0);
  static char longest[5000], nearly[4090]; /* too long for a path, alone or with a file */
  memset(longest, '/', sizeof longest - 1);
  memset(nearly, '/', sizeof nearly - 1);
  EC_CHECK(t, ec_cpus_quota("/proc/self/cgroup", longest) == 0);
  EC_CHECK(t, ec_cpus_quota("/proc/self/cgroup", nearly) == 0);
}

void ec_test_cpus_affinity(ec_test *t) {
  cpu_set_t before, one;
  EC_CHECK(t, sched_getaffinity(0, sizeof before, &before) == 0);
  EC_CHECK(t, ec_cpus_count() >= 1 && ec_cpus_count() <= (size_t)CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  EC_CHECK(t, sched_setaffinity(0, sizeof one, &one) == 0);
  EC_CHECK(t, ec_cpus_count() == 1);
  sched_setaffinity(0, sizeof before, &before);
}
