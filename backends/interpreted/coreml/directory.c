/* The index: JSON written backwards from the last byte, an array of nodes. A node is a file with a
 * region of the payload, or a directory with the numbers of its children. */
#include "directory.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "../json.h"

enum { MAX_NODES = 65536, MAX_DEPTH = 8 };

typedef struct listing {
  ect_json json;
  uint32_t *nodes; /* tokens */
  uint8_t *is_child;
  size_t count;
  ect_text payload;
} listing;

static uint32_t read_nodes(listing *x) {
  const ect_json *j = &x->json;
  const ec_host *host = j->c.host;
  const uint32_t list = ect_json_member(j, 0, "nodes");
  if (!list || j->tokens[list].type != ECT_JSON_ARRAY)
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: the index has no list 'nodes'");
  for (uint32_t t = ect_json_first(j, list); t; t = ect_json_next(j, list, t)) x->count++;
  if (x->count == 0 || x->count > MAX_NODES)
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: the index has %zu nodes, expected 1 to %d", x->count,
                           MAX_NODES);
  x->nodes = host->alloc(x->count * sizeof *x->nodes);
  x->is_child = host->alloc(x->count);
  if (!x->nodes || !x->is_child)
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for the index");
  size_t i = 0;
  for (uint32_t t = ect_json_first(j, list); t; t = ect_json_next(j, list, t)) x->nodes[i++] = t;
  return EC_BACKEND_OK;
}

/* Marks children, so that the root is the node without a mark. */
static uint32_t find_root(listing *x, size_t *root) {
  const ect_json *j = &x->json;
  for (size_t i = 0; i < x->count; i++) {
    const uint32_t children = ect_json_member(j, x->nodes[i], "children");
    uint32_t key = children ? ect_json_first(j, children) : 0;
    for (; key; key = ect_json_next(j, children, key + 1)) {
      uint64_t child;
      if (j->tokens[children].type != ECT_JSON_OBJECT || !ect_json_number(j, key + 1, &child) ||
          child >= x->count)
        return EC_BACKEND_FAIL(
            &j->c, EC_BACKEND_INVALID_PROGRAM,
            "payload: node %zu of the index has a child that is not one of %zu nodes", i, x->count);
      x->is_child[child] = 1;
    }
  }
  for (size_t i = x->count; i-- > 0;)
    if (!x->is_child[i]) {
      *root = i;
      return EC_BACKEND_OK;
    }
  return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM, "payload: the index has no root");
}

/* Finds a file by the names on its path, which end with NULL. */
static uint32_t find_file(const listing *x, size_t root, const char *const *path, ect_text *out) {
  const ect_json *j = &x->json;
  uint32_t node = x->nodes[root];
  uint64_t number, offset, size;
  for (size_t i = 0; path[i]; i++) {
    const uint32_t children = ect_json_member(j, node, "children");
    const uint32_t child = children ? ect_json_member(j, children, path[i]) : 0;
    if (!child || !ect_json_number(j, child, &number) || number >= x->count) return EC_BACKEND_OK;
    node = x->nodes[number];
  }
  const uint32_t region = ect_json_member(j, node, "dataRegion");
  if (!region || !ect_json_number(j, ect_json_member(j, region, "offset"), &offset) ||
      !ect_json_number(j, ect_json_member(j, region, "size"), &size))
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: file %s has no region with offset and size in the index",
                           path[0]);
  if (!ec_in_range(offset, size, x->payload.size))
    return EC_BACKEND_FAIL(&j->c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: the index states a file of %" PRIu64 " bytes at %" PRIu64
                           " in a payload of %zu bytes",
                           size, offset, x->payload.size);
  *out = (ect_text){x->payload.data + offset, (size_t)size};
  return EC_BACKEND_OK;
}

static uint32_t find_files(listing *x, ecm_files *out) {
  static const char package[] = "model.mlpackage", data[] = "Data", apple[] = "com.apple.CoreML";
  static const char *const model[] = {package, data, apple, "model.mlmodel", NULL};
  static const char *const weights[] = {package, data, apple, "weights", "weight.bin", NULL};
  static const char *const metadata[] = {"metadata.json", NULL};
  static const char *const handles[] = {package, "executorch_debug_handle_mapping.json", NULL};
  size_t root = 0;
  EC_BACKEND_TRY(read_nodes(x));
  EC_BACKEND_TRY(find_root(x, &root));
  EC_BACKEND_TRY(find_file(x, root, model, &out->model));
  EC_BACKEND_TRY(find_file(x, root, weights, &out->weights));
  EC_BACKEND_TRY(find_file(x, root, metadata, &out->metadata));
  EC_BACKEND_TRY(find_file(x, root, handles, &out->handles));
  if (!out->model.data)
    return EC_BACKEND_FAIL(
        &x->json.c, EC_BACKEND_NOT_SUPPORTED,
        "payload: no model.mlmodel in a model.mlpackage; a model that was compiled on "
        "macOS (model.mlmodelc) is not supported: lower with model_type=model");
  if (!out->metadata.data)
    return EC_BACKEND_FAIL(&x->json.c, EC_BACKEND_INVALID_PROGRAM, "payload: no metadata.json");
  return EC_BACKEND_OK;
}

uint32_t ecm_directory_open(const ec_backend_call *c, ect_text payload, ecm_files *out) {
  listing x = {.payload = payload};
  *out = (ecm_files){{0}, {0}, {0}, {0}};
  uint32_t status = ect_json_open(c, payload, true, "payload: the index of the directory", &x.json);
  if (status == EC_BACKEND_OK) status = find_files(&x, out);
  ect_json_free(&x.json);
  c->host->free(x.nodes);
  c->host->free(x.is_child);
  return status;
}
