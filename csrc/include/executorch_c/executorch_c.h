/* ExecuTorch programs in C: load a .pte file, run its methods.
 *
 *   ecr_error error;
 *   ecr_program *program;
 *   ecr_method *method;
 *   if (ecr_program_open_file("model.pte", NULL, 0, &program, &error) ||
 *       ecr_method_load(program, "forward", NULL, &method, &error))
 *     return fprintf(stderr, "%s\n", error.message), 1;
 *   float x[2] = {1, 2};
 *   int64_t sizes[] = {1, 2};
 *   ecr_value input = {ECR_TENSOR, {.tensor = {x, ECR_FLOAT32, 2, sizes, NULL}}}, output;
 *   if (ecr_method_run(method, &input, 1, &output, 1, &error)) ...
 *   const float *y = output.as.tensor.data;
 *   ecr_method_free(method);
 *   ecr_program_close(program);
 *
 * Link with `pkg-config --cflags --libs executorch_c`, or with the CMake target
 * executorch_c::executorch_c. Nothing here prints or aborts. Files may be hostile: every error is
 * a status and a message.
 *
 * A program is shared by any number of threads and methods, which must be freed first. A method
 * runs one call at a time; calls from several threads wait for each other. */
#ifndef EXECUTORCH_C_H
#define EXECUTORCH_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ECR_API __attribute__((visibility("default")))

typedef struct ecr_program ecr_program;
typedef struct ecr_method ecr_method;

/* ---- errors -------------------------------------------------------------------------------- */

/* Functions return a status: 0, or an error code of ExecuTorch (0x12: invalid argument, 0x14:
 * operator missing, 0x20: not found, 0x22: access failed, 0x23: invalid program, ...). The message
 * says where, what was found and what was expected. `error` may be NULL. */
typedef uint32_t ecr_status;

typedef struct ecr_error {
  ecr_status status;
  char message[1536];
} ecr_error;

/* ---- values -------------------------------------------------------------------------------- */

typedef enum ecr_kind {
  ECR_NONE = 0,
  ECR_TENSOR = 1,
  ECR_STRING = 2,
  ECR_DOUBLE = 3,
  ECR_INT = 4,
  ECR_BOOL = 5,
  ECR_OTHER = 6 /* a list: only in descriptions */
} ecr_kind;

/* c10::ScalarType */
typedef enum ecr_dtype {
  ECR_UINT8 = 0, ECR_INT8 = 1, ECR_INT16 = 2, ECR_INT32 = 3, ECR_INT64 = 4, ECR_FLOAT16 = 5,
  ECR_FLOAT32 = 6, ECR_FLOAT64 = 7, ECR_COMPLEX64 = 9, ECR_COMPLEX128 = 10, ECR_BOOL8 = 11,
  ECR_BFLOAT16 = 15, ECR_FLOAT8_E5M2 = 23, ECR_FLOAT8_E4M3FN = 24, ECR_FLOAT8_E5M2FNUZ = 25,
  ECR_FLOAT8_E4M3FNUZ = 26, ECR_UINT16 = 27, ECR_UINT32 = 28, ECR_UINT64 = 29
} ecr_dtype;

typedef struct ecr_tensor {
  void *data;
  int32_t dtype; /* an ecr_dtype */
  uint32_t rank;
  const int64_t *sizes;
  const int64_t *strides; /* in bytes; NULL: row-major without gaps */
} ecr_tensor;

typedef struct ecr_value {
  ecr_kind kind;
  union {
    ecr_tensor tensor;
    int64_t i;
    double d;
    bool b;
    const char *string;
  } as;
} ecr_value;

/* Returns the bytes of an element, 0 for an unknown dtype; "float32" or NULL. */
ECR_API size_t ecr_dtype_size(int32_t dtype);
ECR_API const char *ecr_dtype_name(int32_t dtype);

/* ---- programs ------------------------------------------------------------------------------ */

ECR_API const char *ecr_version(void);

/* Opens a .pte file, with the .ptd files that have its external data. Files are mapped. */
ECR_API ecr_status ecr_program_open_file(const char *path, const char *const *data_paths,
                                         size_t data_count, ecr_program **out, ecr_error *error);
/* Opens a program in memory, which must stay valid until the program is closed; aligned to 16
 * bytes, it is not copied. */
ECR_API ecr_status ecr_program_open_memory(const void *data, size_t size, ecr_program **out,
                                           ecr_error *error);
ECR_API void ecr_program_close(ecr_program *program); /* NULL is allowed */

ECR_API size_t ecr_program_method_count(const ecr_program *program);
/* Returns NULL above the count. */
ECR_API const char *ecr_program_method_name(const ecr_program *program, size_t index);

/* ---- methods ------------------------------------------------------------------------------- */

typedef struct ecr_method_options {
  size_t struct_size; /* sizeof(ecr_method_options): later versions append members */
  size_t threads;     /* 0: the default */
  uint64_t max_bytes; /* limits for loading and for each call; 0: the defaults */
  uint64_t max_steps;
} ecr_method_options;

/* Loads a method: checks it, plans its memory, creates its delegates. `options` may be NULL. */
ECR_API ecr_status ecr_method_load(const ecr_program *program, const char *name,
                                   const ecr_method_options *options, ecr_method **out,
                                   ecr_error *error);
ECR_API void ecr_method_free(ecr_method *method); /* NULL is allowed */

ECR_API size_t ecr_method_input_count(const ecr_method *method);
ECR_API size_t ecr_method_output_count(const ecr_method *method);
/* Describes an input or output: its kind; of a tensor dtype and sizes (upper bounds if they are
 * dynamic), without data. Returns ECR_NONE above the count. */
ECR_API ecr_value ecr_method_input(const ecr_method *method, size_t index);
ECR_API ecr_value ecr_method_output(const ecr_method *method, size_t index);

/* Runs the method. Inputs are read during the call only; a tensor must have the dtype of the
 * program. A number must be the traced one. `outputs` has room for all outputs, or is NULL; what
 * they point to belongs to the method, until its next call. */
ECR_API ecr_status ecr_method_run(ecr_method *method, const ecr_value *inputs, size_t input_count,
                                  ecr_value *outputs, size_t output_count, ecr_error *error);
/* Sets all state (mutable buffers) to that after loading. */
ECR_API ecr_status ecr_method_reset(ecr_method *method, ecr_error *error);

/* ---- plug-ins ------------------------------------------------------------------------------ */

struct ec_backend;   /* executorch_c/backend.h */
struct ec_operators; /* executorch_c/operator.h */

/* Registers a backend or a table of operators, which must outlive the process. */
ECR_API ecr_status ecr_register_backend(const struct ec_backend *backend, ecr_error *error);
ECR_API ecr_status ecr_register_operators(const struct ec_operators *operators, ecr_error *error);

#ifdef __cplusplus
}
#endif

#endif
