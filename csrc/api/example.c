/* Runs a method of a program with one float32 input of ones, and prints the first output:
 *
 *   cc example.c $(pkg-config --cflags --libs executorch_c) && ./a.out model.pte */
#include <stdio.h>
#include <stdlib.h>

#include <executorch_c/executorch_c.h>

static int fail(const ecr_error *error) {
  fprintf(stderr, "error 0x%x: %s\n", (unsigned)error->status, error->message);
  return 1;
}

int main(int argc, char **argv) {
  ecr_error error;
  ecr_program *program;
  ecr_method *method;
  if (argc != 2) return fprintf(stderr, "usage: %s MODEL.pte\n", argv[0]), 2;
  if (ecr_program_open_file(argv[1], NULL, 0, &program, &error)) return fail(&error);
  if (ecr_method_load(program, "forward", NULL, &method, &error)) return fail(&error);

  ecr_value input = ecr_method_input(method, 0), output;
  if (input.kind != ECR_TENSOR || input.as.tensor.dtype != ECR_FLOAT32) return 2;
  size_t count = 1;
  for (uint32_t d = 0; d < input.as.tensor.rank; d++) count *= (size_t)input.as.tensor.sizes[d];
  float *ones = malloc(count * sizeof *ones);
  for (size_t i = 0; ones && i < count; i++) ones[i] = 1;
  input.as.tensor.data = ones;

  if (ecr_method_run(method, &input, 1, &output, 1, &error)) return fail(&error);
  const ecr_tensor *y = &output.as.tensor;
  printf("%s", ecr_dtype_name(y->dtype));
  for (uint32_t d = 0; d < y->rank; d++) printf(" %lld", (long long)y->sizes[d]);
  printf(": %.9g\n", (double)*(const float *)y->data);

  free(ones);
  ecr_method_free(method);
  ecr_program_close(program);
  return 0;
}
