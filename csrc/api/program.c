/* Programs from files and memory, and the registries of plug-ins. */
#include "api/program.h"

#include "api/status.h"
#include "backend/registry.h"
#include "core/alloc.h"
#include "kernels/op.h"
#include "runtime/operator.h"

#ifndef ECR_VERSION
#define ECR_VERSION "unknown"
#endif

const char *ecr_version(void) { return ECR_VERSION; }

const ec_program *ecr_program_inside(const ecr_program *program) {
  return (const ec_program *)(const void *)program;
}

/* Takes the sources. */
static ec_status open_program(ec_source *file, ec_source *data, size_t count, ecr_program **out,
                              ec_error *err) {
  const ec_program_options options = {.verification = EC_VERIFY_INTERNAL_CONSISTENCY};
  ec_program *program = NULL;
  const ec_status status = ec_program_open(&options, file, data, count, &program, err);
  *out = (ecr_program *)(void *)program;
  return status;
}

static ec_status open_data(const char *const *paths, size_t count, ec_source *data,
                           ec_error *err) {
  for (size_t i = 0; i < count; i++) {
    const ec_status status = ec_source_open_file(&data[i], paths[i], EC_MLOCK_NONE, err);
    if (status == EC_OK) continue;
    while (i-- > 0) ec_source_close(&data[i]);
    return status;
  }
  return EC_OK;
}

static ec_status open_files(const char *path, const char *const *data_paths, size_t count,
                            ecr_program **out, ec_error *err) {
  ec_source file;
  EC_TRY(ec_ops_init(err));
  EC_TRY(ec_source_open_file(&file, path, EC_MLOCK_NONE, err));
  ec_source *data = ec_alloc_array(count + 1, sizeof *data);
  ec_status status = data ? open_data(data_paths, count, data, err)
                          : ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for data files");
  if (status == EC_OK) status = open_program(&file, data, count, out, err);
  else ec_source_close(&file);
  ec_free(data);
  return status;
}

ecr_status ecr_program_open_file(const char *path, const char *const *data_paths,
                                 size_t data_count, ecr_program **out, ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  *out = NULL;
  return ecr_report(open_files(path, data_paths, data_count, out, &err), &err, error);
}

static ec_status open_memory(const void *data, size_t size, ecr_program **out, ec_error *err) {
  ec_source file;
  EC_TRY(ec_ops_init(err));
  EC_TRY(ec_source_open_buffer(&file, data, size, NULL, NULL, err));
  return open_program(&file, NULL, 0, out, err);
}

ecr_status ecr_program_open_memory(const void *data, size_t size, ecr_program **out,
                                   ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  *out = NULL;
  return ecr_report(open_memory(data, size, out, &err), &err, error);
}

void ecr_program_close(ecr_program *program) { ec_program_free((ec_program *)(void *)program); }

size_t ecr_program_method_count(const ecr_program *program) {
  return ec_program_method_count(ecr_program_inside(program));
}

const char *ecr_program_method_name(const ecr_program *program, size_t index) {
  const ec_program *p = ecr_program_inside(program);
  return index < ec_program_method_count(p) ? ec_program_method_name(p, index) : NULL;
}

ecr_status ecr_register_backend(const struct ec_backend *backend, ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  return ecr_report(ec_backend_register(backend, &err), &err, error);
}

ecr_status ecr_register_operators(const struct ec_operators *operators, ecr_error *error) {
  ec_error err;
  ec_error_clear(&err);
  ec_status status = ec_ops_init(&err);
  if (status == EC_OK) status = ec_operators_register(operators, &err);
  return ecr_report(status, &err, error);
}
