/* A stand-in for OpenVINO's engine in place of backends/openvino/library.c: it reads a payload's
 * arguments and results, and returns tensors, now and then of other shapes and dtypes. */
#include <stdlib.h>
#include <string.h>

#include "../../backends/openvino/library.h"
#include "../../backends/openvino/tensors.h"
#include "testing/fuzz_mutate.h"

enum { RESULTS = 256, MODEL_AT = 32, HEADER = 48, KEY = 12, LARGEST = 1 << 20, ODD = 16 };

typedef struct port {
  const eco_dtype *dtype;
  int64_t rank, dims[ECO_RANK];
} port;

struct eco_model {
  size_t inputs, outputs;
  port results[RESULTS];
};

struct eco_request {
  const eco_model *model;
};

struct eco_tensor {
  port shape;
  size_t size;
  void *data;
};

static ec_random numbers; /* from the last payload: a case is repeated with the same ones */
static volatile uint64_t sink;

static void read_bytes(const void *data, size_t size) {
  for (size_t i = 0; i < size; i++) sink += ((const uint8_t *)data)[i];
}

/* ---- models ------------------------------------------------------------------------------ */

static bool read_port(eco_model *m, const eco_tag *tag) {
  if (eco_text_is(tag->name, "port")) {
    if (m->outputs == RESULTS) return false;
    m->results[m->outputs++].dtype =
      eco_dtype_of_precision(eco_xml_attribute(tag, "precision"));
  } else if (eco_text_is(tag->name, "dim") && m->outputs) {
    port *result = &m->results[m->outputs - 1];
    int64_t size;
    if (result->rank == ECO_RANK || !eco_text_number(tag->body, &size)) return false;
    result->dims[result->rank++] = size < 0 ? 2 : size;
  }
  return true;
}

/* Reads the arguments and results of the model itself, not those of bodies. */
static bool read_model(eco_text text, eco_model *m) {
  size_t depth = 0;
  bool in_result = false;
  for (eco_tag tag; eco_xml_next(&text, &tag);) {
    if (eco_text_is(tag.name, "layers")) depth += tag.is_end ? (size_t)-1 : 1;
    if (tag.is_end || depth != 1) continue;
    if (eco_text_is(tag.name, "layer")) {
      const eco_text type = eco_xml_attribute(&tag, "type");
      m->inputs += eco_text_is(type, "Parameter");
      in_result = eco_text_is(type, "Result");
    } else if (in_result && !read_port(m, &tag)) {
      return false;
    }
  }
  return true;
}

static int import_model(const eco_core *core, const char *data, size_t size, const char *device,
                        eco_model **out) {
  static const char start[] = "<?xml version=\"1.0\"?>";
  const uint8_t *bytes = (const uint8_t *)data;
  (void)core;
  (void)device;
  read_bytes(data, size);
  const uint64_t at = size < HEADER ? UINT64_MAX : ec_read_u64(bytes + MODEL_AT);
  if (at > size) return -1;
  numbers = ec_random_seed(sink, size);
  char *text = malloc(size - at + 1);
  *out = calloc(1, sizeof **out);
  if (!text || !*out) abort();
  for (size_t i = 0; i < size - at; i++) /* the key is that of the first bytes */
    text[i] = (char)(bytes[at + i] ^ bytes[at + i % KEY] ^ (uint8_t)start[i % KEY]);
  const bool fits = read_model((eco_text){text, size - at}, *out);
  free(text);
  if (fits) return 0;
  free(*out);
  *out = NULL;
  return -1;
}

static int inputs_size(const eco_model *model, size_t *out) {
  *out = model->inputs;
  return 0;
}

static int outputs_size(const eco_model *model, size_t *out) {
  *out = model->outputs;
  return 0;
}

static void free_model(eco_model *model) { free(model); }

static int create_core(eco_core **out) {
  *out = malloc(1);
  return *out ? 0 : -1;
}

static void free_core(eco_core *core) { free(core); }

static int set_property(const eco_core *core, const char *device, ...) {
  (void)core;
  sink += strlen(device);
  return 0;
}

/* ---- requests and tensors ---------------------------------------------------------------- */

static int create_request(const eco_model *model, eco_request **out) {
  *out = malloc(sizeof **out);
  if (!*out) abort();
  **out = (eco_request){model};
  return 0;
}

static void free_request(eco_request *request) { free(request); }

/* Returns the bytes of a tensor, at most LARGEST; otherwise more. */
static size_t size_of(const port *shape) {
  size_t size = shape->dtype ? shape->dtype->size : 0;
  for (int64_t k = 0; k < shape->rank; k++) {
    if (shape->dims[k] < 0 || shape->dims[k] > LARGEST) return SIZE_MAX;
    size *= (size_t)shape->dims[k];
    if (size > LARGEST) return SIZE_MAX;
  }
  return size;
}

static int host_tensor(unsigned type, eco_shape shape, void *data, eco_tensor **out) {
  port lent = {eco_dtype_of_type(type), shape.rank, {0}};
  if (!lent.dtype || shape.rank > ECO_RANK) return -1;
  for (int64_t k = 0; k < shape.rank; k++) lent.dims[k] = shape.dims[k];
  const size_t size = size_of(&lent);
  if (size > LARGEST) return -1;
  read_bytes(data, size);
  *out = malloc(sizeof **out);
  if (!*out) abort();
  **out = (eco_tensor){lent, size, NULL};
  return 0;
}

static int set_input(eco_request *request, size_t index, const eco_tensor *tensor) {
  sink += tensor->size;
  return index < request->model->inputs ? 0 : -1;
}

static void change(port *shape) {
  const size_t kind = ec_random_below(&numbers, 4);
  if (kind == 0) shape->dtype = eco_dtype_of_type((unsigned)ec_random_below(&numbers, 20));
  else if (kind == 1 && shape->rank) shape->rank--;
  else if (kind == 2 && shape->rank < ECO_RANK) shape->dims[shape->rank++] = 1;
  else if (shape->rank) shape->dims[0] = (int64_t)ec_random_below(&numbers, 5);
}

static int get_output(const eco_request *request, size_t index, eco_tensor **out) {
  if (index >= request->model->outputs) return -1;
  port shape = request->model->results[index];
  if (!ec_random_below(&numbers, ODD)) change(&shape);
  size_t size = size_of(&shape);
  if (size > LARGEST) shape.dims[0] = 0, size = 0;
  *out = malloc(sizeof **out);
  if (!*out) abort();
  **out = (eco_tensor){shape, size, calloc(1, size ? size : 1)};
  return (*out)->data ? 0 : -1;
}

static int infer(eco_request *request) { return request ? 0 : -1; }

static int profile(const eco_request *request, eco_profile *out) {
  (void)request;
  (void)out;
  return -1;
}

static void free_profile(eco_profile *list) { (void)list; }

static int element_type(const eco_tensor *tensor, unsigned *out) {
  *out = tensor->shape.dtype ? tensor->shape.dtype->type : 99;
  return 0;
}

static int get_shape(const eco_tensor *tensor, eco_shape *out) {
  out->rank = tensor->shape.rank;
  out->dims = malloc(sizeof tensor->shape.dims);
  if (!out->dims) abort();
  memcpy(out->dims, tensor->shape.dims, sizeof tensor->shape.dims);
  return 0;
}

static int byte_size(const eco_tensor *tensor, size_t *out) {
  *out = tensor->size;
  return 0;
}

static int tensor_data(const eco_tensor *tensor, void **out) {
  *out = tensor->data;
  return 0;
}

static void free_tensor(eco_tensor *tensor) {
  free(tensor->data);
  free(tensor);
}

static int free_shape(eco_shape *shape) {
  free(shape->dims);
  return 0;
}

/* ---- library.h --------------------------------------------------------------------------- */

static const eco_library library = {
  .core_create = create_core, .core_free = free_core, .core_set_property = set_property,
  .core_import_model = import_model, .compiled_model_inputs_size = inputs_size,
  .compiled_model_outputs_size = outputs_size, .compiled_model_free = free_model,
  .compiled_model_create_infer_request = create_request, .infer_request_free = free_request,
  .infer_request_set_input_tensor_by_index = set_input, .infer_request_infer = infer,
  .infer_request_get_output_tensor_by_index = get_output,
  .infer_request_get_profiling_info = profile, .profiling_info_list_free = free_profile,
  .tensor_create_from_host_ptr = host_tensor, .tensor_get_element_type = element_type,
  .tensor_get_shape = get_shape, .tensor_get_byte_size = byte_size, .tensor_data = tensor_data,
  .tensor_free = free_tensor, .shape_free = free_shape, .version = "2025.0", .year = 2025};

bool eco_library_set_path(const char *path) { return path != NULL; }

const char *eco_library_path(void) { return "stand-in"; }

uint32_t eco_library_open(const ec_backend_call *c, const eco_library **out) {
  (void)c;
  *out = &library;
  return EC_BACKEND_OK;
}

bool eco_library_is_usable(void) { return true; }

uint32_t eco_library_fail(const ec_backend_call *c, const eco_library *lib, uint32_t status,
                          const char *what) {
  return EC_BACKEND_FAIL(c, status, "%s: OpenVINO %s: the stand-in fails", what, lib->version);
}
