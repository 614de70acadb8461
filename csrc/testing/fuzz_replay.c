/* The targets of fuzz_guided.c without libFuzzer, for compilers that do not have it:
 *
 *   fuzz_replay --target=NAME [--program=FILE] [--mutate=N] [--seed=S] [--out=DIR]
 *               [--edges=OUTPUT] FILE...
 *
 * Runs each file unchanged, then N mutations of it in chains of 16, each derived from the previous
 * one. The name of a file is printed to stdout before it runs. With --out, each file runs in a
 * child process: an input that fails is written to DIR, and the next file runs. With --edges, the
 * edges of each file are appended to OUTPUT (fuzz_edges.h). Exits with 1 if any failed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/fuzz_edges.h"
#include "testing/fuzz_guided.h"

enum { SECONDS = 10, WALL_SECONDS = 300, ROW = 16, MAX_BYTES = 1 << 18, PATH_BYTES = 512 };

/* Shared by the parent and its child: the input that runs, and the child's counts at its end. */
typedef struct shared {
  size_t size;
  uint8_t data[MAX_BYTES];
  ec_fuzz_counts counts;
} shared;

static shared *running;
static const char *edges; /* NULL: not measured */

static void on_alarm(int signal_number) {
  (void)signal_number;
  static const char text[] = "a case takes too long\n";
  (void)!write(2, text, sizeof text - 1);
  abort();
}

/* Limits the processor time of a case, so that a busy machine is no finding, and its whole time, in
 * which it may wait. */
static void limit(time_t seconds, unsigned wall_seconds) {
  const struct itimerval timer = {.it_value = {.tv_sec = seconds}};
  setitimer(ITIMER_VIRTUAL, &timer, NULL);
  alarm(wall_seconds);
}

static void run_input(const uint8_t *data, size_t size) {
  uint8_t *exact = malloc(size ? size : 1);
  if (!exact) abort();
  if (size) memcpy(exact, data, size);
  if (running && size <= MAX_BYTES) memcpy(running->data, data, running->size = size);
  limit(SECONDS, WALL_SECONDS);
  LLVMFuzzerTestOneInput(exact, size);
  limit(0, 0);
  free(exact);
}

static void mutate(ec_bytes file, size_t times, uint64_t seed) {
  static uint8_t copy[MAX_BYTES];
  size_t size = 0;
  ec_random r = ec_random_seed(seed, file.size);
  for (size_t i = 0; i < times && file.size <= MAX_BYTES; i++) {
    if (i % ROW == 0) memcpy(copy, file.data, size = file.size);
    size = LLVMFuzzerCustomMutator(copy, size, MAX_BYTES, (unsigned)ec_random_next(&r));
    run_input(copy, size);
  }
}

static void run_file(const char *path, size_t times, uint64_t seed) {
  ec_bytes file = ec_fuzz_read(path);
  ec_fuzz_edges_clear();
  run_input(file.data, file.size);
  if (edges) ec_fuzz_edges_append(edges);
  mutate(file, times, seed);
  free((void *)file.data);
}

static void write_input(const char *folder, const char *path, uint64_t seed) {
  char name[PATH_BYTES];
  const char *last = strrchr(path, '/');
  snprintf(name, sizeof name, "%s/%llu-%s", folder, (unsigned long long)seed,
           last ? last + 1 : path);
  FILE *out = fopen(name, "wb");
  if (!out || fwrite(running->data, 1, running->size, out) != running->size)
    fprintf(stderr, "cannot write %s\n", name);
  else printf("FAILED: %s\n", name);
  if (out) fclose(out);
}

/* Runs a file in a child process. Returns whether all of its inputs passed. */
static bool run_apart(const char *path, size_t times, uint64_t seed, const char *folder) {
  int status;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    run_file(path, times, seed);
    running->counts = ec_fuzz_all;
    exit(0); /* the leak checker runs here */
  }
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    ec_fuzz_all = running->counts;
    return true;
  }
  write_input(folder, path, seed);
  return false;
}

static const char *text(int argc, char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (!strncmp(argv[i], name, strlen(name))) return argv[i] + strlen(name);
  return NULL;
}

static size_t number(int argc, char **argv, const char *name, size_t otherwise) {
  const char *found = text(argc, argv, name);
  return found ? strtoull(found, NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  signal(SIGALRM, on_alarm);
  signal(SIGVTALRM, on_alarm);
  const size_t times = number(argc, argv, "--mutate=", 0), seed = number(argc, argv, "--seed=", 1);
  const char *folder = text(argc, argv, "--out=");
  edges = text(argc, argv, "--edges=");
  const int rights = PROT_READ | PROT_WRITE, kind = MAP_SHARED | MAP_ANONYMOUS;
  if (folder) running = mmap(NULL, sizeof *running, rights, kind, -1, 0);
  if (running == MAP_FAILED) abort();
  size_t failed = 0;
  for (int i = 1; i < argc; i++) {
    if (!strncmp(argv[i], "--", 2)) continue;
    puts(argv[i]);
    fflush(stdout);
    if (!folder) run_file(argv[i], times, seed + (size_t)i);
    else failed += !run_apart(argv[i], times, seed + (size_t)i, folder);
  }
  const ec_fuzz_counts *c = &ec_fuzz_all;
  printf("%zu cases: %zu opened, %zu of %zu methods loaded, %zu calls ran, %zu were not made, "
         "%zu tensors read\n"
         "%zu calls compared: %zu differ, %zu by rounding\n",
         c->cases, c->opened, c->loaded, c->methods, c->ran, c->skipped, c->tensors, c->compared,
         c->differ, c->undecided);
  return failed != 0;
}
