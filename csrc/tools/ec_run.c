/* ec-run: runs a method of a program on arrays from files. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/bundled.h"
#include "tools/etdump.h"
#include "tools/npy.h"
#include "tools/plugins.h"
#include "tools/signals.h"

enum { MAX_FILES = 64, MAX_VALUES = 256, EXIT_USAGE = 2, EXIT_DIFFER = 3 };

static const char help[] =
    "usage: ec-run [options] MODEL.pte|MODEL.bpte\n"
    "\n"
    "Run a method of an ExecuTorch program and print or write its outputs.\n"
    "\n"
    "  -i, --input FILE      inputs, in order: .npy (one), .npz (all of its arrays),\n"
    "                        or raw bytes in the dtype and shape of the program's\n"
    "                        input. Without any: ones\n"
    "  -o, --output DIR      write outputs as DIR/out0.npy, ...\n"
    "  -m, --method NAME     default: forward, or the only method\n"
    "  -d, --data FILE.ptd   external data; may be repeated\n"
    "  -n, --iterations N    run N times, and print the times\n"
    "  -t, --threads N       threads; default: the CPUs of the process\n"
    "  -l, --list            print methods, inputs and outputs\n"
    "      --etdump FILE     write the times of all runs for the official Inspector\n"
    "      --rtol X          limits for the cases of a .bpte (0.01 and 0.001)\n"
    "      --atol X\n"
    "  -h, --help            print this text\n"
    "\n"
    "The inputs of a .bpte are its test cases, whose outputs are compared.\n"
    "Exit codes: 0 success, 1 an error, 2 wrong arguments, 3 outputs differ.\n";

typedef struct mapped {
  const uint8_t *data;
  size_t size;
} mapped;

typedef struct options {
  const char *model, *method, *output, *etdump;
  const char *inputs[MAX_FILES], *data[MAX_FILES];
  size_t input_count, data_count, iterations, threads;
  double rtol, atol;
  bool list;
} options;

typedef struct arguments {
  ecr_value values[MAX_VALUES];
  npy_array arrays[MAX_VALUES]; /* storage of sizes */
  void *ones[MAX_VALUES];
  size_t count;
} arguments;

/* Names in messages come from files: other bytes than printable ASCII are shown as '?'. */
static int complain(const char *what, const char *why) {
  fprintf(stderr, "ec-run: %s: ", what);
  for (; *why; why++) fputc(*why >= ' ' && *why <= '~' ? *why : '?', stderr);
  fputc('\n', stderr);
  return EXIT_FAILURE;
}

static bool map_file(const char *path, mapped *out) {
  struct stat info;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  void *data = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) errno = EINVAL;
  else if (fd >= 0 && info.st_size == 0) errno = ENODATA;
  else if (fd >= 0)
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int reason = errno;
  if (fd >= 0) close(fd);
  if (data == MAP_FAILED) {
    complain(path, strerror(reason));
    return false;
  }
  *out = (mapped){data, (size_t)info.st_size};
  return true;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static void print_value(const char *name, size_t index, const ecr_value *v) {
  const ecr_tensor *t = &v->as.tensor;
  printf("%s%zu: ", name, index);
  switch (v->kind) {
  case ECR_NONE: printf("None\n"); return;
  case ECR_INT: printf("int %lld\n", (long long)v->as.i); return;
  case ECR_DOUBLE: printf("float %g\n", v->as.d); return;
  case ECR_BOOL: printf("bool %s\n", v->as.b ? "True" : "False"); return;
  case ECR_STRING: printf("str '%s'\n", v->as.string); return;
  case ECR_OTHER: printf("a list\n"); return;
  case ECR_TENSOR: break;
  }
  printf("%s (", ecr_dtype_name(t->dtype));
  for (uint32_t d = 0; d < t->rank; d++)
    printf("%s%lld", d ? ", " : "", (long long)t->sizes[d]);
  printf("%s)\n", t->rank == 1 ? "," : "");
}

static int list_methods(const ecr_program *program, const options *o) {
  ecr_error error;
  const ecr_method_options limits = {.struct_size = sizeof limits, .threads = o->threads};
  for (size_t i = 0; i < ecr_program_method_count(program); i++) {
    const char *name = ecr_program_method_name(program, i);
    ecr_method *m;
    printf("method %s\n", name);
    if (ecr_method_load(program, name, &limits, &m, &error))
      return complain(o->model, error.message);
    for (size_t k = 0; k < ecr_method_input_count(m); k++) {
      const ecr_value v = ecr_method_input(m, k);
      print_value("  in", k, &v);
    }
    for (size_t k = 0; k < ecr_method_output_count(m); k++) {
      const ecr_value v = ecr_method_output(m, k);
      print_value("  out", k, &v);
    }
    ecr_method_free(m);
  }
  return EXIT_SUCCESS;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void use_array(arguments *a, const ecr_value *wanted) {
  npy_array *array = &a->arrays[a->count];
  if (array->dtype == NPY_VOID2)
    array->dtype = wanted->kind == ECR_TENSOR ? wanted->as.tensor.dtype : ECR_BFLOAT16;
  a->values[a->count++] =
      (ecr_value){ECR_TENSOR, {.tensor = {(void *)(uintptr_t)array->data, array->dtype,
                                          array->rank, array->sizes, array->strides}}};
}

/* Bytes of a tensor as described, 0 if they overflow. */
static size_t bytes_of(const ecr_tensor *t) {
  size_t bytes = ecr_dtype_size(t->dtype);
  for (uint32_t d = 0; d < t->rank; d++)
    if (__builtin_mul_overflow(bytes, (size_t)t->sizes[d], &bytes)) return 0;
  return bytes;
}

static const char *read_raw(arguments *a, mapped file, const ecr_value *wanted) {
  static char text[128];
  if (wanted->kind != ECR_TENSOR) return "raw bytes for an input that is not a tensor";
  const size_t bytes = bytes_of(&wanted->as.tensor);
  if (bytes != file.size) {
    snprintf(text, sizeof text, "%zu raw bytes, input %zu needs %zu", file.size, a->count, bytes);
    return text;
  }
  a->values[a->count] = *wanted;
  a->values[a->count++].as.tensor.data = (void *)(uintptr_t)file.data;
  return NULL;
}

static bool ends_with(const char *text, const char *suffix) {
  const size_t size = strlen(text), end = strlen(suffix);
  return size >= end && strcmp(text + size - end, suffix) == 0;
}

static const char *read_input(const char *path, mapped file, const ecr_method *m, arguments *a) {
  const char *wrong = NULL;
  ecr_value wanted = ecr_method_input(m, a->count);
  if (a->count == MAX_VALUES) return "more than 256 inputs";
  if (ends_with(path, ".npy")) {
    wrong = npy_read(file.data, file.size, &a->arrays[a->count]);
    if (!wrong) use_array(a, &wanted);
    return wrong;
  }
  if (!ends_with(path, ".npz")) return read_raw(a, file, &wanted);
  for (size_t at = 0; a->count < MAX_VALUES; use_array(a, &wanted)) {
    wanted = ecr_method_input(m, a->count);
    wrong = npz_next(file.data, file.size, &at, &a->arrays[a->count]);
    if (wrong || !a->arrays[a->count].data) return wrong;
  }
  return "more than 256 inputs";
}

/* Sets every element to one. */
static bool fill_ones(arguments *a, ecr_value *v) {
  static const float one = 1;
  static const double wide = 1;
  static const uint16_t half = 0x3c00, brain = 0x3f80;
  static const uint64_t integer = 1;
  ecr_tensor *t = &v->as.tensor;
  const size_t bytes = bytes_of(t), width = ecr_dtype_size(t->dtype);
  const void *from = t->dtype == ECR_FLOAT32 || t->dtype == ECR_COMPLEX64    ? (const void *)&one
                     : t->dtype == ECR_FLOAT64 || t->dtype == ECR_COMPLEX128 ? (const void *)&wide
                     : t->dtype == ECR_FLOAT16                               ? (const void *)&half
                     : t->dtype == ECR_BFLOAT16                              ? (const void *)&brain
                                                               : (const void *)&integer;
  const size_t part = t->dtype == ECR_COMPLEX64 || t->dtype == ECR_COMPLEX128 ? width / 2 : width;
  uint8_t *data = calloc(bytes ? bytes : 1, 1);
  if (!data) return false;
  for (size_t at = 0; at < bytes; at += width) memcpy(data + at, from, part);
  t->data = a->ones[a->count] = data;
  return true;
}

static int read_inputs(const options *o, const ecr_method *m, arguments *a) {
  for (size_t i = 0; i < o->input_count; i++) {
    mapped file;
    if (!map_file(o->inputs[i], &file)) return EXIT_FAILURE;
    const char *wrong = read_input(o->inputs[i], file, m, a);
    if (wrong) return complain(o->inputs[i], wrong);
  }
  if (o->input_count) return EXIT_SUCCESS;
  for (; a->count < ecr_method_input_count(m) && a->count < MAX_VALUES; a->count++) {
    ecr_value *v = &a->values[a->count];
    *v = ecr_method_input(m, a->count);
    if (v->kind == ECR_TENSOR && !fill_ones(a, v)) return complain(o->model, "no memory for ones");
  }
  return EXIT_SUCCESS;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static int write_output(const char *folder, size_t index, const ecr_tensor *t) {
  char path[4096];
  snprintf(path, sizeof path, "%s/out%zu.npy", folder, index);
  FILE *file = fopen(path, "wb");
  const bool written = file && npy_write(file, t);
  if (file && fclose(file) == 0 && written) return EXIT_SUCCESS;
  return complain(path, strerror(errno));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int run_method(const options *o, ecr_method *m, const arguments *a, ecr_value *outputs) {
  ecr_error error;
  double least = 0, total = 0;
  for (size_t i = 0; i < o->iterations; i++) {
    const double begin = now();
    if (ecr_method_run(m, a->values, a->count, outputs, MAX_VALUES, &error))
      return complain(o->model, error.message);
    const double took = now() - begin;
    total += took;
    if (i == 0 || took < least) least = took;
  }
  if (o->iterations > 1)
    printf("%zu runs: fastest %.3f ms, mean %.3f ms\n", o->iterations, least,
           total / (double)o->iterations);
  if (o->output && mkdir(o->output, 0777) != 0 && errno != EEXIST)
    return complain(o->output, strerror(errno));
  for (size_t i = 0; i < ecr_method_output_count(m); i++) {
    print_value("out", i, &outputs[i]);
    if (o->output && outputs[i].kind == ECR_TENSOR &&
        write_output(o->output, i, &outputs[i].as.tensor))
      return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

/* ---- programs -------------------------------------------------------------------------------- */

static const char *choose_method(const ecr_program *program, const options *o) {
  if (o->method) return o->method;
  return ecr_program_method_count(program) == 1 ? ecr_program_method_name(program, 0) : "forward";
}

static int run_cases(const options *o, mapped file, ecr_method *m, const char *name) {
  ecr_error error = {0};
  const int differ = bundled_run(file.data, file.size, m, name, o->rtol, o->atol, &error);
  if (differ < 0) return complain(o->model, error.message);
  return differ ? EXIT_DIFFER : EXIT_SUCCESS;
}

static int run_inputs(const options *o, ecr_method *m) {
  static arguments a;
  static ecr_value outputs[MAX_VALUES];
  int code = read_inputs(o, m, &a);
  if (code == EXIT_SUCCESS) code = run_method(o, m, &a, outputs);
  for (size_t i = 0; i < MAX_VALUES; i++) free(a.ones[i]);
  return code;
}

static int run_recorded(const options *o, ecr_method *m, mapped bundled, const char *name) {
  ecr_error error;
  etdump *dump = o->etdump ? etdump_begin(m, &error) : NULL;
  if (o->etdump && !dump) return complain(o->etdump, error.message);
  int code = bundled.data && !o->input_count ? run_cases(o, bundled, m, name) : run_inputs(o, m);
  const bool succeeded = code == EXIT_SUCCESS || code == EXIT_DIFFER;
  if (dump && !etdump_end(dump, succeeded ? o->etdump : NULL))
    code = complain(o->etdump, strerror(errno));
  return code;
}

static int run_program(const options *o, const ecr_program *program, mapped bundled) {
  ecr_error error;
  ecr_method *m;
  const ecr_method_options limits = {.struct_size = sizeof limits, .threads = o->threads};
  if (o->list) return list_methods(program, o);
  const char *name = choose_method(program, o);
  if (ecr_method_load(program, name, &limits, &m, &error))
    return complain(o->model, error.message);
  const int code = run_recorded(o, m, bundled, name);
  ecr_method_free(m);
  return code;
}

static int open_and_run(const options *o) {
  ecr_error error;
  ecr_program *program = NULL;
  mapped file;
  const void *inside;
  size_t size;
  if (!map_file(o->model, &file)) return EXIT_FAILURE;
  if (plugins_register(&error)) return complain("plug-ins", error.message);
  const bool is_bundled = bundled_is(file.data, file.size);
  if (is_bundled) {
    if (!bundled_program(file.data, file.size, &inside, &size, &error) ||
        ecr_program_open_memory(inside, size, &program, &error))
      return complain(o->model, error.message);
  } else if (ecr_program_open_file(o->model, o->data, o->data_count, &program, &error))
    return complain(o->model, error.message);
  const int code = run_program(o, program, is_bundled ? file : (mapped){NULL, 0});
  ecr_program_close(program);
  return code;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static int refuse(const char *what, const char *why) {
  fprintf(stderr, "ec-run: %s: %s (see ec-run --help)\n", what, why);
  return EXIT_USAGE;
}

static bool read_count(const char *text, size_t least, size_t *out) {
  char *end;
  errno = 0;
  const unsigned long long number = strtoull(text, &end, 10);
  *out = (size_t)number;
  return *text >= '0' && *text <= '9' && !*end && !errno && number >= least &&
         number <= UINT32_MAX;
}

static bool read_limit(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end && *out >= 0;
}

enum { RTOL = 256, ATOL, ETDUMP };

static int read_option(int option, options *o) {
  switch (option) {
  case 'i':
    if (o->input_count == MAX_FILES) return refuse("--input", "more than 64");
    o->inputs[o->input_count++] = optarg;
    return 0;
  case 'd':
    if (o->data_count == MAX_FILES) return refuse("--data", "more than 64");
    o->data[o->data_count++] = optarg;
    return 0;
  case 'o': o->output = optarg; return 0;
  case 'm': o->method = optarg; return 0;
  case 'l': o->list = true; return 0;
  case 'n':
  case 't':
    return read_count(optarg, 1, option == 'n' ? &o->iterations : &o->threads)
               ? 0
               : refuse(optarg, "not a number from 1");
  case ETDUMP: o->etdump = optarg; return 0;
  case RTOL: return read_limit(optarg, &o->rtol) ? 0 : refuse(optarg, "not a limit");
  case ATOL: return read_limit(optarg, &o->atol) ? 0 : refuse(optarg, "not a limit");
  default: return EXIT_USAGE; /* getopt has printed the reason */
  }
}

int main(int argc, char **argv) {
  static const struct option names[] = {
      {"input", 1, NULL, 'i'},      {"output", 1, NULL, 'o'},  {"method", 1, NULL, 'm'},
      {"data", 1, NULL, 'd'},       {"iterations", 1, NULL, 'n'}, {"threads", 1, NULL, 't'},
      {"list", 0, NULL, 'l'},       {"rtol", 1, NULL, RTOL},   {"atol", 1, NULL, ATOL},
      {"etdump", 1, NULL, ETDUMP},  {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
  options o = {.iterations = 1, .rtol = 0.01, .atol = 0.001};
  for (int option; (option = getopt_long(argc, argv, "i:o:m:d:n:t:lh", names, NULL)) != -1;) {
    if (option == 'h') return fputs(help, stdout) < 0;
    const int code = read_option(option, &o);
    if (code) return code;
  }
  if (optind + 1 != argc) return refuse("MODEL", optind == argc ? "missing" : "more than one");
  o.model = argv[optind];
  signals_name(o.model);
  return open_and_run(&o);
}
