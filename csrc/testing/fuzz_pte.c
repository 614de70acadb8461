/* The fuzzer of damaged programs: a plain executable, to be built with sanitizers.
 *
 *   fuzz_pte [--cases N] [--seed S] [--jobs J] [--seconds T] [--out DIR] [--case I]
 *            [--payload 1] FILE...
 *
 * Case i is a copy of file i % files, first undamaged, then damaged: bytes anywhere, or only
 * numbers of the program, so that it stays one; with --payload, bytes of the first segment, a
 * delegate's payload. It is opened, described, loaded and run. A case
 * fails by a crash, a sanitizer's report, a leak or a time of T seconds. Cases run in child
 * processes: a failed one is counted and written to DIR, and the next one continues. Exits with 1
 * if any failed. --case runs (and writes) a single one, in this process. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status.h"
#include "format/pte.h"
#include "testing/fuzz_run.h"

enum { MAX_JOBS = 16, MAX_FAILURES = 20, PATH_BYTES = 512, MAX_SPOTS = 1 << 16 };
enum { EXIT_BAD = 3, EXIT_SLOW = 4 };

typedef struct input {
  const char *path;
  uint8_t *data;
  size_t size, tables;
  size_t payload_at, payload_size; /* the first segment */
  ec_spot *spots; /* its numbers; none if it is not a program */
  size_t spot_count;
} input;

/* Shared by the parent and all children. */
typedef struct shared {
  ec_fuzz_counts counts[MAX_JOBS];
  size_t next[MAX_JOBS]; /* the current case of each job */
} shared;

typedef struct options {
  size_t cases, jobs, only;
  uint64_t seed;
  unsigned seconds;
  bool payload;
  const char *out;
  input *inputs;
  size_t input_count;
} options;

static void on_alarm(int signal_number) {
  (void)signal_number;
  static const char text[] = "a case takes too long\n";
  (void)!write(2, text, sizeof text - 1);
  _exit(EXIT_SLOW);
}

/* Creates the bytes of a case, in a block of their exact size, so that a sanitizer detects
 * overreads. */
static uint8_t *make_case(const options *o, size_t number, ec_random *r, size_t *size) {
  const input *in = &o->inputs[number % o->input_count];
  *r = ec_random_seed(o->seed, number);
  *size = in->size;
  uint8_t *copy = malloc(in->size);
  if (!copy) abort();
  memcpy(copy, in->data, in->size);
  const int whole = number < o->input_count;
  if (!whole && o->payload && in->payload_size) {
    ec_mutate(copy + in->payload_at, in->payload_size, in->payload_size, r);
    return copy;
  }
  const int structured = in->spot_count && ec_random_below(r, 2);
  if (!whole && structured) ec_mutate_numbers(copy, in->spots, in->spot_count, r);
  if (!whole && !structured) *size = ec_mutate(copy, in->size, in->tables, r);
  uint8_t *exact = realloc(copy, *size ? *size : 1);
  if (!exact) abort();
  return exact;
}

static int run_case(const options *o, size_t number, ec_fuzz_counts *counts) {
  ec_random r;
  size_t size;
  uint8_t *data = make_case(o, number, &r, &size);
  alarm(o->seconds);
  int bad = ec_fuzz_run((ec_bytes){data, size}, (ec_bytes){NULL, 0}, r, counts);
  alarm(0);
  free(data);
  return bad;
}

/* Writes the case in the parent. Cases are reproducible, whatever happened to the child. */
static void write_case(const options *o, size_t number) {
  ec_random r;
  size_t size;
  char path[PATH_BYTES];
  if (!o->out || number >= o->cases) return;
  uint8_t *data = make_case(o, number, &r, &size);
  snprintf(path, sizeof path, "%s/case_%llu_%zu.pte", o->out, (unsigned long long)o->seed, number);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size) fprintf(stderr, "cannot write %s\n", path);
  if (file) fclose(file);
  free(data);
}

/* Runs a child: processes cases from next[job] on until it dies or all are done. */
static void run_job(const options *o, shared *s, size_t job) {
  signal(SIGALRM, on_alarm);
  for (size_t i = s->next[job]; i < o->cases; i += o->jobs) {
    s->next[job] = i;
    if (run_case(o, i, &s->counts[job])) _exit(EXIT_BAD);
  }
  s->next[job] = o->cases;
  exit(0); /* the leak checker runs here */
}

static const char *how(int status) {
  if (WIFSIGNALED(status)) return strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) == EXIT_SLOW) return "took too long";
  if (WEXITSTATUS(status) == EXIT_BAD) return "leaked, failed without a sentence or differs";
  return "a sanitizer stopped it";
}

static size_t run_jobs(const options *o, shared *s) {
  pid_t children[MAX_JOBS] = {0};
  size_t failures = 0, running = 0;
  for (size_t job = 0; job < o->jobs; job++, running++) {
    s->next[job] = job;
    if ((children[job] = fork()) == 0) run_job(o, s, job);
  }
  while (running) {
    int status;
    pid_t child = wait(&status);
    size_t job = 0;
    while (job < o->jobs && children[job] != child) job++;
    if (child < 0 || job == o->jobs) continue;
    running--;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    failures++;
    size_t at = s->next[job];
    printf("case %zu (%s): %s\n", at,
           at < o->cases ? o->inputs[at % o->input_count].path : "at exit", how(status));
    fflush(stdout);
    write_case(o, at);
    s->next[job] += o->jobs;
    if (failures >= MAX_FAILURES || s->next[job] >= o->cases) continue;
    if ((children[job] = fork()) == 0) run_job(o, s, job);
    running++;
  }
  return failures;
}

static void report(const options *o, const shared *s, size_t failures) {
  ec_fuzz_counts all = {0};
  for (size_t job = 0; job < o->jobs; job++) {
    const ec_fuzz_counts *c = &s->counts[job];
    all.cases += c->cases;
    all.opened += c->opened;
    all.methods += c->methods;
    all.loaded += c->loaded;
    all.ran += c->ran;
    all.skipped += c->skipped;
    all.compared += c->compared;
    all.undecided += c->undecided;
    all.differ += c->differ;
    for (size_t i = 0; i < EC_FUZZ_STATUSES; i++) all.failed[i] += c->failed[i];
  }
  printf("%zu cases: %zu opened, %zu of %zu methods loaded, %zu calls ran, %zu were not made\n",
         all.cases, all.opened, all.loaded, all.methods, all.ran, all.skipped);
  printf("%zu calls compared: %zu differ, %zu by rounding\n", all.compared, all.differ,
         all.undecided);
  for (size_t i = 0; i < EC_FUZZ_STATUSES; i++)
    if (all.failed[i])
      printf("  %8zu %s (%#zx)\n", all.failed[i], ec_status_sentence((ec_status)i), i);
  printf("%zu failures\n", failures);
}

static int find_numbers(input *in) {
  ec_pte pte;
  if (ec_pte_open(&pte, in->data, in->size, EC_VERIFY_MINIMAL, NULL) != EC_OK) return 1;
  in->spots = malloc(MAX_SPOTS * sizeof *in->spots);
  if (in->spots)
    in->spot_count = ec_find_spots(in->data, pte.root, ec_pte_schema(), in->spots, MAX_SPOTS);
  in->tables = (size_t)pte.program_size;
  ec_bytes payload;
  if (ec_fb_vector(pte.root, EC_PTE_Program_segments).count &&
      ec_pte_segment(&pte, 0, &payload, NULL) == EC_OK) {
    in->payload_at = (size_t)(payload.data - in->data);
    in->payload_size = payload.size;
  }
  return in->spots != NULL;
}

static int read_input(const char *path, input *in) {
  FILE *file = fopen(path, "rb");
  struct stat info;
  if (!file || fstat(fileno(file), &info) != 0 || info.st_size < 1) return 0;
  size_t size = (size_t)info.st_size;
  *in = (input){.path = path, .data = malloc(size), .size = size, .tables = size};
  size_t got = in->data ? fread(in->data, 1, in->size, file) : 0;
  fclose(file);
  return got == in->size && find_numbers(in);
}

static int usage(const char *what) {
  fprintf(stderr, "fuzz_pte: %s: %s\n", what, errno ? strerror(errno) : "not understood");
  return 2;
}

static int set_option(options *o, const char *name, const char *value) {
  unsigned long long number = strtoull(value, NULL, 10);
  if (!strcmp(name, "--cases")) o->cases = (size_t)number;
  else if (!strcmp(name, "--seed")) o->seed = number;
  else if (!strcmp(name, "--jobs")) o->jobs = (size_t)number;
  else if (!strcmp(name, "--seconds")) o->seconds = (unsigned)number;
  else if (!strcmp(name, "--case")) o->only = (size_t)number;
  else if (!strcmp(name, "--payload")) o->payload = number != 0;
  else if (!strcmp(name, "--out")) o->out = value;
  else return 0;
  return o->jobs >= 1 && o->jobs <= MAX_JOBS;
}

int main(int argc, char **argv) {
  options o = {.cases = 1000, .jobs = 1, .seed = 1, .seconds = 10, .only = SIZE_MAX};
  int i = 1;
  for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2)
    if (!set_option(&o, argv[i], argv[i + 1])) return usage(argv[i]);
  if (i >= argc) return usage("no files");
  o.inputs = calloc((size_t)(argc - i), sizeof *o.inputs);
  for (; i < argc && o.inputs; i++)
    if (!read_input(argv[i], &o.inputs[o.input_count++])) return usage(argv[i]);
  shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!o.inputs || s == MAP_FAILED) return usage("memory");
  ec_fuzz_init();
  size_t failures = 0;
  if (o.only != SIZE_MAX) {
    signal(SIGALRM, on_alarm);
    if (o.out) write_case(&o, o.only);
    failures = (size_t)run_case(&o, o.only, &s->counts[0]);
  } else {
    fflush(stdout);
    failures = run_jobs(&o, s);
  }
  report(&o, s, failures);
  for (size_t k = 0; k < o.input_count; k++) {
    free(o.inputs[k].data);
    free(o.inputs[k].spots);
  }
  free(o.inputs);
  return failures != 0;
}
