/* A package is a zip archive of stored members: a graph with several methods, the tensors that they
 * name (safetensors), and a map of names of equal tensors (aliases.json). The graphs become methods
 * of one program, whose constants stay where they are in the file: the program names them. State
 * has one place for each key, in memory that the methods share. */
#include "package.h"

#include <stdio.h>

#include "../grow.h"
#include "../pte.h"
#include "../safetensors.h"
#include "../translate.h"
#include "../unread.h"
#include "../zip.h"
#include "method.h"
#include "payload.h"

enum { GRAPH, TENSORS, ALIASES, MEMBERS };

typedef struct package {
  ecn_data data;
  ec_backend_call c;
  ect_member members[MEMBERS];
  ect_tensors tensors;
  uint8_t *texts;    /* of aliases.json, decoded */
  ect_names aliases; /* numbers of tensors */
  ect_names mutated; /* keys that a method mutates: state in all of them */
  ect_names keys;    /* numbers of the items of `out` */
  size_t item_room;
  ec_fb_vec methods;
  ect_program *programs; /* by method */
  size_t program_count;
  ec_backend_package *out;
} package;

#define REFUSE(p, ...) EC_BACKEND_FAIL(&(p)->c, EC_BACKEND_INVALID_PROGRAM, __VA_ARGS__)

static uint32_t no_memory(const package *p) {
  return EC_BACKEND_FAIL(&p->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a package");
}

/* ---- aliases --------------------------------------------------------------------------------- */

/* Adds an alias of a tensor; both names are of constants. */
static uint32_t add_alias(package *p, ect_text key, ect_text owner) {
  const uint32_t tensor = ect_names_find(&p->tensors.keys, owner);
  if (ect_tensors_find(&p->tensors, key))
    return REFUSE(p, "aliases.json: '%.*s' is an alias, and a tensor itself", ECT_CLIP(key, 80));
  if (ect_names_find(&p->aliases, key) != UINT32_MAX)
    return REFUSE(p, "aliases.json: '%.*s' is there twice", ECT_CLIP(key, 80));
  if (tensor == UINT32_MAX)
    return REFUSE(p, "aliases.json: '%.*s' is an alias of '%.*s', which is no tensor of "
                  "program.safetensors, but absent or an alias itself", ECT_CLIP(key, 80),
                  ECT_CLIP(owner, 80));
  if (ect_names_find(&p->mutated, key) != UINT32_MAX ||
      ect_names_find(&p->mutated, owner) != UINT32_MAX)
    return REFUSE(p, "aliases.json: '%.*s' is an alias of '%.*s', but a method mutates one of them",
                  ECT_CLIP(key, 80), ECT_CLIP(owner, 80));
  return ect_names_set(&p->aliases, key, tensor) ? (uint32_t)EC_BACKEND_OK : no_memory(p);
}

static uint32_t read_pairs(package *p, const ect_json *j) {
  ect_text key, owner;
  if (j->tokens[0].type != ECT_JSON_OBJECT) return REFUSE(p, "aliases.json: not an object");
  for (uint32_t at = ect_json_first(j, 0); at;) {
    const uint32_t value = j->tokens[at].next;
    if (!ect_json_text(j, at, &key) || !ect_json_text(j, value, &owner))
      return REFUSE(p, "aliases.json: the value of '%.*s' is not a text", ECT_CLIP(key, 80));
    EC_BACKEND_TRY(add_alias(p, key, owner));
    at = ect_json_next(j, 0, value);
  }
  return EC_BACKEND_OK;
}

static uint32_t read_aliases(package *p) {
  const ect_member *m = &p->members[ALIASES];
  ect_json j;
  if (!m->data) return EC_BACKEND_OK;
  uint32_t status = ect_json_open(&p->c, (ect_text){m->data, m->size}, false, m->name, &j);
  if (status == EC_BACKEND_OK) status = ect_json_decode(&j, &p->texts);
  if (status == EC_BACKEND_OK) status = read_pairs(p, &j);
  ect_json_free(&j);
  return status;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Finds the tensor of a key. Returns NULL if there is none. */
static ect_stored *find_tensor(const package *p, ect_text key) {
  uint32_t number = ect_names_find(&p->tensors.keys, key);
  if (number == UINT32_MAX) number = ect_names_find(&p->aliases, key);
  return number == UINT32_MAX ? NULL : &p->tensors.items[number];
}

/* Adds data of the program. */
static uint32_t add_item(package *p, ect_text key, const ect_stored *t) {
  ec_backend_package *out = p->out;
  if (ect_names_find(&p->keys, key) != UINT32_MAX) return EC_BACKEND_OK;
  ec_backend_package_item *moved =
      ect_grow(p->c.host, out->items, &p->item_room, out->item_count, sizeof *moved);
  if (moved) out->items = moved;
  if (!moved || !ect_names_set(&p->keys, key, (uint32_t)out->item_count)) return no_memory(p);
  ec_backend_package_item *item = &out->items[out->item_count++];
  *item = (ec_backend_package_item){.key = (const char *)key.data, .data = t->data,
                                    .size = t->size, .dtype = t->dtype, .rank = t->rank};
  memcpy(item->sizes, t->sizes, sizeof item->sizes);
  return EC_BACKEND_OK;
}

static void write_type(char *out, size_t size, const char *dtype, const int64_t *sizes,
                       uint32_t rank) {
  size_t used = (size_t)snprintf(out, size, "%s [", dtype);
  for (uint32_t d = 0; d < rank && used < size; d++)
    used += (size_t)snprintf(out + used, size - used, "%s%lld", d ? ", " : "",
                             (long long)sizes[d]);
  if (used < size) (void)snprintf(out + used, size - used, "]");
}

/* A function of ecn_data. */
static uint32_t find_constant(const ecn_data *self, ect_graph *g, ect_text key,
                              const ect_operand *o, ect_group *group) {
  package *p = (package *)(uintptr_t)self;
  const ect_stored *t = find_tensor(p, key);
  char stored[ECT_NOTE_BYTES], expected[ECT_NOTE_BYTES];
  if (!t)
    return REFUSE(p, "method '%.*s': constant '%.*s' is not in program.safetensors",
                  ECT_CLIP(g->method, 80), ECT_CLIP(key, 80));
  if (t->dtype != o->scalar_type || t->rank != o->rank ||
      memcmp(t->sizes, o->sizes, t->rank * sizeof *t->sizes) != 0) {
    write_type(stored, sizeof stored, t->code ? t->code : "of an unknown dtype", t->sizes, t->rank);
    write_type(expected, sizeof expected, ec_backend_dtype_name(o->scalar_type), o->sizes, o->rank);
    return REFUSE(p, "method '%.*s': constant '%.*s' is %s in program.safetensors, and %s in "
                  "the graph", ECT_CLIP(g->method, 80), ECT_CLIP(key, 80), stored, expected);
  }
  group->data = t->data;
  group->size = t->size;
  group->is_external = true;
  return add_item(p, key, t);
}

/* Finds the bytes of a copy that a tensor needs: loops read items at aligned addresses. */
static size_t count_copied(const ect_stored *t) {
  enum { ALIGN = 64, MAX_ITEM_ALIGN = 8 };
  const size_t item = ec_backend_dtype_size(t->dtype);
  if ((uintptr_t)t->data % (item < MAX_ITEM_ALIGN ? item : MAX_ITEM_ALIGN) == 0) return 0;
  return (t->size + ALIGN - 1) / ALIGN * ALIGN;
}

/* Makes room for copies of constants that begin at unaligned bytes of the file. */
static uint32_t place_copies(package *p) {
  ec_backend_package *out = p->out;
  size_t total = 0, used = 0;
  for (size_t i = 0; i < out->item_count; i++)
    total += count_copied(find_tensor(p, ect_text_of(out->items[i].key)));
  if (!total) return EC_BACKEND_OK;
  out->copies = p->c.host->alloc(total);
  out->copies_size = total;
  if (!out->copies) return no_memory(p);
  for (size_t i = 0; i < out->item_count; i++) {
    ect_stored *t = find_tensor(p, ect_text_of(out->items[i].key));
    const size_t bytes = count_copied(t);
    if (bytes && !t->copy) {
      t->copy = (uint8_t *)out->copies + used;
      used += bytes;
    }
    out->items[i].copy = t->copy;
  }
  return EC_BACKEND_OK;
}

/* ---- methods --------------------------------------------------------------------------------- */

/* Translates a method. */
static uint32_t read_method(package *p, const ect_format *format, uint32_t index,
                            ect_method *out) {
  const ec_fb_table method = ec_fb_vec_table(p->methods, index);
  ect_graph *g = p->c.host->alloc(sizeof *g);
  if (!g) return no_memory(p);
  *g = (ect_graph){.c = p->c, .format = format, .method = ecn_method_name(method),
                   .program = {.host = p->c.host}};
  uint32_t status = g->method.size ? ecn_read_method(g, method, &p->mutated, &p->data)
                                   : REFUSE(p, "program.ptg: method %u has no name",
                                            (unsigned)index);
  if (status == EC_BACKEND_OK) status = ect_translate(g);
  if (status == EC_BACKEND_OK) status = ect_finish(p->c.call, &g->program);
  p->programs[index] = g->program;
  p->program_count++;
  *out = (ect_method){(const char *)g->method.data, &p->programs[index]};
  ect_graph_close(g);
  p->c.host->free(g);
  return status;
}

/* Gives state its place in the memory that methods share, one for each key. */
static uint32_t place_state(package *p) {
  enum { ALIGN = 64 };
  const size_t count = p->out->item_count;
  uint64_t *places = p->c.host->alloc((count + 1) * sizeof *places), size = 0;
  if (!places) return no_memory(p);
  for (size_t i = 0; i < count; i++) {
    places[i] = size;
    if (ect_names_find(&p->mutated, ect_text_of(p->out->items[i].key)) != UINT32_MAX)
      size += (p->out->items[i].size + ALIGN - 1) / ALIGN * ALIGN;
  }
  for (size_t m = 0; m < p->program_count; m++) {
    ect_program *program = &p->programs[m];
    program->state_size = size;
    for (size_t i = 0; i < program->tensor_count; i++) {
      ect_tensor *t = &program->tensors[i];
      if (t->role != ECT_STATE) continue;
      const char *key = program->constants[t->constant].key;
      t->place = places[ect_names_find(&p->keys, ect_text_of(key))];
    }
  }
  p->c.host->free(places);
  return EC_BACKEND_OK;
}

static uint32_t write_program(package *p, const ect_method *methods) {
  ec_fb_writer bytes;
  EC_BACKEND_TRY(place_state(p));
  EC_BACKEND_TRY(place_copies(p));
  EC_BACKEND_TRY(ect_write_pte(p->c.call, methods, p->program_count, &bytes));
  p->out->program = bytes.data;
  p->out->program_size = bytes.size;
  return EC_BACKEND_OK;
}

static uint32_t read_methods(package *p, const ect_format *format) {
  const ec_host *host = p->c.host;
  if (!p->methods.count) return REFUSE(p, "program.ptg has no methods");
  ect_method *methods = host->alloc(p->methods.count * sizeof *methods);
  p->programs = host->alloc(p->methods.count * sizeof *p->programs);
  uint32_t status = methods && p->programs ? (uint32_t)EC_BACKEND_OK : no_memory(p);
  for (uint32_t i = 0; i < p->methods.count && status == EC_BACKEND_OK; i++)
    status = read_method(p, format, i, &methods[i]);
  if (status == EC_BACKEND_OK) status = write_program(p, methods);
  for (size_t i = 0; i < p->program_count; i++) ect_free(&p->programs[i]);
  host->free(p->programs);
  host->free(methods);
  return status;
}

/* ---- the archive ----------------------------------------------------------------------------- */

static uint32_t open_members(package *p, const uint8_t *data, size_t size) {
  static const char *const names[] = {"program.ptg", "program.safetensors", "aliases.json"};
  const ect_member *graph = &p->members[GRAPH], *tensors = &p->members[TENSORS];
  for (size_t i = 0; i < MEMBERS; i++) p->members[i].name = names[i];
  EC_BACKEND_TRY(ect_zip_find(&p->c, data, size, p->members, MEMBERS));
  if (!graph->data)
    return REFUSE(p, "a zip archive without a member '%s', expected a native package (.ptn)",
                  graph->name);
  EC_BACKEND_TRY(ecn_verify(&p->c, graph->data, graph->size, graph->name, &p->methods));
  for (uint32_t i = 0; i < p->methods.count; i++)
    EC_BACKEND_TRY(ecn_find_mutated(&p->c, ec_fb_vec_table(p->methods, i), &p->mutated));
  if (tensors->data)
    EC_BACKEND_TRY(ect_tensors_open(&p->c, (ect_text){tensors->data, tensors->size},
                                    tensors->name, &p->tensors));
  return read_aliases(p);
}

uint32_t ecn_open_package(const ec_backend *self, const ec_host *host, ec_host_call *call,
                          const void *data, size_t size, ec_backend_package *out) {
  if (host->struct_size < sizeof(ec_host))
    return host->fail(call, EC_BACKEND_NOT_SUPPORTED, "the runtime is older than this backend");
  package p = {.data.find = find_constant,
               .c = {host, call},
               .tensors.keys.host = host,
               .aliases.host = host,
               .mutated.host = host,
               .keys.host = host,
               .out = out};
  uint32_t status = open_members(&p, data, size);
  if (status == EC_BACKEND_OK) status = read_methods(&p, self->user);
  ect_tensors_free(host, &p.tensors);
  host->free(p.texts);
  ect_names_free(&p.aliases);
  ect_names_free(&p.mutated);
  ect_names_free(&p.keys);
  return status;
}
