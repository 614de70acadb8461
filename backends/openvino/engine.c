/* Import of a payload by the engine. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

#include "graph.h"

/* Reads the compile spec "device", which need not end with NUL; "CPU" without it. */
static uint32_t read_device(const ec_backend_call *c, const ec_backend_init *what, char *device) {
  strcpy(device, "CPU");
  for (size_t i = 0; i < what->spec_count; i++) {
    const ec_backend_spec *spec = &what->specs[i];
    const char *text = spec->value;
    if (strcmp(spec->key, "device") != 0) continue;
    size_t size = spec->size;
    while (size && !text[size - 1]) size--;
    bool is_name = size && size < ECO_DEVICE;
    for (size_t k = 0; is_name && k < size; k++)
      is_name = (text[k] >= 'A' && text[k] <= 'Z') || (text[k] >= '0' && text[k] <= '9') ||
                text[k] == '.';
    if (!is_name)
      return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                             "compile spec 'device' of %zu bytes is not a device name, expected "
                             "\"CPU\", \"GPU.0\", ...",
                             spec->size);
    memcpy(device, text, size);
    device[size] = 0;
  }
  return EC_BACKEND_OK;
}

static uint32_t set_property(const ec_backend_call *c, const eco_delegate *d, const char *key,
                             const char *value) {
  char what[128];
  if (d->lib->core_set_property(d->core, d->device, key, value) == 0) return EC_BACKEND_OK;
  snprintf(what, sizeof what, "%s=%s is refused on device %s", key, value, d->device);
  return eco_library_fail(c, d->lib, EC_BACKEND_NOT_SUPPORTED, what);
}

/* Properties must be set before the import. */
static uint32_t set_properties(const ec_backend_call *c, const eco_delegate *d) {
  char threads[24];
  const int64_t own = (int64_t)c->host->thread_count(c->call);
  snprintf(threads, sizeof threads, "%lld",
           (long long)(d->options.num_threads ? d->options.num_threads : own));
  if (strcmp(d->options.precision, "auto") != 0)
    EC_BACKEND_TRY(set_property(c, d, "INFERENCE_PRECISION_HINT", d->options.precision));
  if (strcmp(d->device, "CPU") == 0)
    EC_BACKEND_TRY(set_property(c, d, "INFERENCE_NUM_THREADS", threads));
  /* by default the engine quantises float inputs of layers with int8 weights, at run time */
  if (strcmp(d->device, "CPU") == 0 && strcmp(d->options.precision, "f32") == 0)
    EC_BACKEND_TRY(set_property(c, d, "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"));
  return d->options.profile ? set_property(c, d, "PERF_COUNT", "YES") : EC_BACKEND_OK;
}

static uint32_t fail_import(const ec_backend_call *c, const eco_delegate *d) {
  char what[256];
  snprintf(what, sizeof what,
           "device %s refuses the payload, which is in %s; it does not state its release, and the "
           "engine must be of the one that exported it", d->device,
           d->is_known ? "the format of OpenVINO 2025 (IR 11)"
                       : "another format than that of OpenVINO 2025 (IR 11)");
  return eco_library_fail(c, d->lib, EC_BACKEND_INCOMPATIBLE, what);
}

/* Releases after 2025 have another format, which only the engine knows. */
static uint32_t check_format(const ec_backend_call *c, const eco_delegate *d,
                             const eco_blob *blob) {
  if (blob->is_known || d->lib->year > 2025 || strcmp(d->device, "CPU") != 0) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(
      c, EC_BACKEND_INCOMPATIBLE,
      "the payload is not in the format of OpenVINO 2025, but the installed engine is "
      "OpenVINO %s: install the release that exported it",
      d->lib->version);
}

uint32_t eco_engine_import(const ec_backend_call *c, const eco_delegate *d, const void *payload,
                           size_t size, eco_model **model, eco_request **request) {
  const eco_library *lib = d->lib;
  if (!c->host->charge(size)) /* at least: the engine copies constants and model */
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a model of %zu bytes",
                           size);
  if (lib->core_import_model(d->core, payload, size, d->device, model) != 0)
    return fail_import(c, d);
  if (lib->compiled_model_create_infer_request(*model, request) != 0)
    return eco_library_fail(c, lib, EC_BACKEND_INTERNAL, "the imported model has no request");
  return EC_BACKEND_OK;
}

static uint32_t import_blob(const ec_backend_call *c, const ec_backend_init *what,
                            eco_delegate *d) {
  const eco_library *lib = d->lib;
  if (lib->core_create(&d->core) != 0)
    return eco_library_fail(c, lib, EC_BACKEND_INTERNAL, "no core");
  EC_BACKEND_TRY(set_properties(c, d));
  EC_BACKEND_TRY(
      eco_engine_import(c, d, what->payload, what->payload_size, &d->model, &d->request));
  if (lib->compiled_model_inputs_size(d->model, &d->inputs) != 0 ||
      lib->compiled_model_outputs_size(d->model, &d->outputs) != 0)
    return eco_library_fail(c, lib, EC_BACKEND_INTERNAL, "the imported model has no arguments");
  return EC_BACKEND_OK;
}

/* Checks what the engine would otherwise trust: the graph's numbers, and where constants are. */
static uint32_t check_blob(const ec_backend_call *c, const ec_backend_init *what,
                           const eco_delegate *d, eco_blob *blob) {
  eco_graph graph = {0};
  *blob = (eco_blob){0};
  if (strcmp(d->device, "CPU") != 0) return EC_BACKEND_OK; /* other plugins, other formats */
  EC_BACKEND_TRY(eco_blob_open(c, what, blob));
  if (!blob->is_known) return EC_BACKEND_OK;
  const uint32_t status = eco_graph_open(c, blob, &graph);
  eco_graph_close(c->host, &graph);
  return status;
}

uint32_t eco_engine_open(const ec_backend_call *c, const ec_backend_init *what, eco_delegate *d) {
  eco_blob blob;
  EC_BACKEND_TRY(eco_options_read(c, what, &d->options));
  EC_BACKEND_TRY(read_device(c, what, d->device));
  EC_BACKEND_TRY(check_blob(c, what, d, &blob));
  EC_BACKEND_TRY(eco_library_open(c, &d->lib));
  EC_BACKEND_TRY(check_format(c, d, &blob));
  d->payload = what->payload;
  d->blob_bytes = (int64_t)what->payload_size;
  d->is_known = blob.is_known;
  return import_blob(c, what, d);
}

void eco_engine_free(const eco_library *lib, eco_model *model, eco_request *request) {
  if (!eco_library_is_usable()) return;
  if (request) lib->infer_request_free(request);
  if (model) lib->compiled_model_free(model);
}

void eco_engine_close(eco_delegate *d) {
  eco_engine_free(d->lib, d->model, d->request);
  if (d->core && eco_library_is_usable()) d->lib->core_free(d->core);
}
