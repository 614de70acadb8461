/* The targets of fuzz_guided.c without libFuzzer, for compilers that do not have it:
 *
 *   fuzz_replay --target=NAME [--program=FILE] [--mutate=N] [--seed=S] FILE...
 *
 * Runs each file unchanged, then N mutations of it in chains of 16, each derived from the previous
 * one. The name of a file is printed to stdout before it runs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing/fuzz_guided.h"

enum { SECONDS = 10, ROW = 16, MAX_BYTES = 1 << 18 };

static void on_alarm(int signal_number) {
  (void)signal_number;
  static const char text[] = "a case takes too long\n";
  (void)!write(2, text, sizeof text - 1);
  abort();
}

static void run_input(const uint8_t *data, size_t size) {
  uint8_t *exact = malloc(size ? size : 1);
  if (!exact) abort();
  if (size) memcpy(exact, data, size);
  alarm(SECONDS);
  LLVMFuzzerTestOneInput(exact, size);
  alarm(0);
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

static size_t number(int argc, char **argv, const char *name, size_t otherwise) {
  for (int i = 1; i < argc; i++)
    if (!strncmp(argv[i], name, strlen(name))) return strtoull(argv[i] + strlen(name), NULL, 10);
  return otherwise;
}

int main(int argc, char **argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  signal(SIGALRM, on_alarm);
  const size_t times = number(argc, argv, "--mutate=", 0), seed = number(argc, argv, "--seed=", 1);
  for (int i = 1; i < argc; i++) {
    if (!strncmp(argv[i], "--", 2)) continue;
    puts(argv[i]);
    fflush(stdout);
    ec_bytes file = ec_fuzz_read(argv[i]);
    run_input(file.data, file.size);
    mutate(file, times, seed + (size_t)i);
    free((void *)file.data);
  }
  const ec_fuzz_counts *c = &ec_fuzz_all;
  printf("%zu cases: %zu opened, %zu of %zu methods loaded, %zu calls ran, %zu were not made, "
         "%zu tensors read\n",
         c->cases, c->opened, c->loaded, c->methods, c->ran, c->skipped, c->tensors);
  return 0;
}
