/* Options, with the names of the reference runtime. */
#include "options.h"

#include <stdatomic.h>
#include <string.h>

#include "call.h"

enum { SHARING, CACHE, OPTIONS };

const char *const ecx_option_keys[] = {
  [SHARING] = "workspace_sharing_mode", [CACHE] = "weight_cache_enabled", [OPTIONS] = NULL};
static const uint32_t kinds[OPTIONS] = {[SHARING] = EC_BACKEND_INT, [CACHE] = EC_BACKEND_BOOL};
static const int highest[OPTIONS] = {[SHARING] = ECX_SHARE_METHOD, [CACHE] = 1};
static const char *const expected[OPTIONS] = {
  [SHARING] = "0 (none), 1 (each program), 2 (all) or 3 (each method)",
  [CACHE] = "a bool"};
static const char *const refused[] = {"packed_cache_path", "save_weight_cache_on_disk"};

static atomic_int of_process[OPTIONS] = {[SHARING] = ECX_SHARE_METHOD, [CACHE] = 1};

static uint32_t refuse_key(const ecx_call *c, const char *key) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (strcmp(key, refused[i]) == 0)
      return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED,
                      "option '%s': packed weights stay in memory only, shared by name between "
                      "the delegates of a program", key);
  return EC_BACKEND_NOT_FOUND;
}

/* Identifies an option and reads its value as a number. */
static uint32_t read_one(const ecx_call *c, const ec_backend_option *option, int *which,
                         int *value) {
  for (*which = 0; *which < OPTIONS; ++*which)
    if (strcmp(option->key, ecx_option_keys[*which]) == 0) break;
  if (*which == OPTIONS) return refuse_key(c, option->key);
  int64_t number = option->kind == EC_BACKEND_BOOL ? option->as.b : option->as.i;
  if (option->kind != kinds[*which] || number < 0 || number > highest[*which])
    return ecx_fail(c, EC_BACKEND_INVALID_ARGUMENT, "option '%s': expected %s", option->key,
                    expected[*which]);
  *value = (int)number;
  return EC_BACKEND_OK;
}

uint32_t ecx_options_read(const ecx_call *c, const ec_backend_init *what, ecx_options *out) {
  int values[OPTIONS], which, value;
  for (int i = 0; i < OPTIONS; i++) values[i] = atomic_load(&of_process[i]);
  for (size_t i = 0; i < what->option_count; i++) {
    uint32_t status = read_one(c, &what->options[i], &which, &value);
    if (status == EC_BACKEND_NOT_FOUND)
      return ecx_fail(c, EC_BACKEND_INVALID_ARGUMENT,
                      "unknown option '%s', expected workspace_sharing_mode or "
                      "weight_cache_enabled", what->options[i].key);
    ECX_TRY(status);
    values[which] = value;
  }
  *out = (ecx_options){(ecx_sharing)values[SHARING], values[CACHE] != 0};
  return EC_BACKEND_OK;
}

uint32_t ecx_options_set(const ecx_call *c, const ec_backend_option *option) {
  int which, value;
  ECX_TRY(read_one(c, option, &which, &value));
  atomic_store(&of_process[which], value);
  return EC_BACKEND_OK;
}

uint32_t ecx_options_get(ec_backend_option *option) {
  for (int i = 0; i < OPTIONS; i++) {
    if (strcmp(option->key, ecx_option_keys[i]) != 0) continue;
    int value = atomic_load(&of_process[i]);
    option->kind = kinds[i];
    if (kinds[i] == EC_BACKEND_BOOL)
      option->as.b = value;
    else
      option->as.i = value;
    return EC_BACKEND_OK;
  }
  return EC_BACKEND_NOT_FOUND;
}
