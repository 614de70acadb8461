/* Another text of the model: layers get new numbers in their order, and an edge begins at the layer
 * that computes its value, in a region or not. */
#include "regions.h"

#include <stdlib.h>
#include <string.h>

enum { LAYER_TEXT = 256, EDGE_TEXT = 128, STEPS = 8 }; /* text: at most, beside what is copied */

/* A port of a layer of a scope: 0, the model; n + 1, the region of layer n. */
typedef struct port {
  uint32_t scope, layer, number;
} port;

typedef struct row {
  port at; /* number: 0 */
  eco_tag tag;
  eco_text type;
  const char *end;      /* of the layer's text */
  uint32_t number;      /* of the layer in the new text */
  bool is_region, is_kept, is_saturation;
} row;

/* An input, and the output that it reads; or another input, which reads the same (`is_same`). */
typedef struct link {
  port to, from;
  bool is_same;
} link;

typedef struct regions {
  row *rows;        /* in the order of the text */
  row **by_port;    /* sorted */
  link *links;      /* sorted after the text has been read */
  size_t row_count, link_count, region_count;
  eco_text layers, edges; /* the text between the tags */
} regions;

/* The position in the text. */
typedef struct place {
  size_t depth;   /* of <layers> */
  uint32_t scope; /* of the region's body or of its port_map; 0: outside */
  row *last[2];   /* layers that have begun, by depth */
  bool in_map, is_odd; /* is_odd: something that the engine does not write */
} place;

/* ---- ports ----------------------------------------------------------------------------------- */

static int compare(port a, port b) {
  if (a.scope != b.scope) return a.scope < b.scope ? -1 : 1;
  if (a.layer != b.layer) return a.layer < b.layer ? -1 : 1;
  return (a.number > b.number) - (a.number < b.number);
}

static int compare_links(const void *a, const void *b) {
  return compare(((const link *)a)->to, ((const link *)b)->to);
}

static int compare_rows(const void *a, const void *b) {
  return compare((*(row *const *)a)->at, (*(row *const *)b)->at);
}

static const row *find_row(const regions *r, port at) {
  row wanted = {.at = {at.scope, at.layer, 0}}, *key = &wanted;
  row **match = bsearch(&key, r->by_port, r->row_count, sizeof *r->by_port, compare_rows);
  return match ? *match : NULL;
}

static const link *find_link(const regions *r, port to) {
  const link wanted = {.to = to};
  return bsearch(&wanted, r->links, r->link_count, sizeof *r->links, compare_links);
}

/* Sorts both tables; false if a layer or an input is there twice. */
static bool sort(regions *r) {
  for (size_t i = 0; i < r->row_count; i++) r->by_port[i] = &r->rows[i];
  qsort(r->by_port, r->row_count, sizeof *r->by_port, compare_rows);
  qsort(r->links, r->link_count, sizeof *r->links, compare_links);
  for (size_t i = 1; i < r->row_count; i++)
    if (!compare(r->by_port[i - 1]->at, r->by_port[i]->at)) return false;
  for (size_t i = 1; i < r->link_count; i++)
    if (!compare(r->links[i - 1].to, r->links[i].to)) return false;
  return true;
}

/* Follows a value out of regions and into them, to the layer that computes it. */
static const row *find_source(const regions *r, port *from) {
  for (int step = 0; step < STEPS; step++) {
    const row *layer = find_row(r, *from);
    if (!layer || layer->is_kept) return layer;
    const link *read =
      find_link(r, layer->is_region ? *from : (port){from->scope, from->layer, 0});
    if (read && read->is_same) read = find_link(r, read->from);
    if (!read || read->is_same) return NULL;
    *from = read->from;
  }
  return NULL; /* a circle, or regions that pass values on */
}

/* ---- the payload's text ---------------------------------------------------------------------- */

/* True for layers that are operators of the engine, too. */
static bool is_operator(const row *layer) {
  const eco_text version = eco_xml_attribute(&layer->tag, "version");
  return layer->is_saturation || !eco_text_is(version, "SnippetsOpset");
}

static void add_row(regions *r, place *w, const eco_tag *tag) {
  row *layer = &r->rows[r->row_count++];
  *layer = (row){.tag = *tag, .type = eco_xml_attribute(tag, "type"),
                 .at.scope = w->depth > 1 ? w->scope : 0};
  w->last[w->depth - 1] = layer;
  const bool in_region = layer->at.scope > 0, is_argument =
    eco_text_is(layer->type, "Parameter") || eco_text_is(layer->type, "Result");
  layer->is_region = !in_region && eco_text_is(layer->type, "Subgraph");
  layer->is_saturation = in_region && eco_text_is(layer->type, "ConvertSaturation");
  layer->is_kept = !layer->is_region && !(in_region && is_argument);
  w->is_odd |= !eco_xml_index(tag, "id", &layer->at.layer) || (in_region && !is_operator(layer)) ||
               (tag->attributes.size && eco_tag_end(tag)[-2] == '/');
  if (in_region) return;
  w->scope = layer->is_region ? (uint32_t)r->row_count : 0;
  r->region_count += layer->is_region;
}

static void add_edge(regions *r, place *w, const eco_tag *tag) {
  link *edge = &r->links[r->link_count++];
  const uint32_t scope = w->depth ? w->scope : 0;
  *edge = (link){.to.scope = scope, .from.scope = scope};
  w->is_odd |= !eco_xml_index(tag, "from-layer", &edge->from.layer) ||
               !eco_xml_index(tag, "from-port", &edge->from.number) ||
               !eco_xml_index(tag, "to-layer", &edge->to.layer) ||
               !eco_xml_index(tag, "to-port", &edge->to.number);
}

/* Adds a row of a port_map. A parameter of the body reads what the region does; the region's output
 * is what a result of the body reads. */
static void add_map(regions *r, place *w, const eco_tag *tag) {
  link *same = &r->links[r->link_count++];
  port outside = {0}, inside = {.scope = w->scope};
  outside.layer = r->rows[w->scope - 1].at.layer;
  w->is_odd |= !eco_xml_index(tag, "external_port_id", &outside.number) ||
               !eco_xml_index(tag, "internal_layer_id", &inside.layer);
  *same = eco_text_is(tag->name, "input") ? (link){inside, outside, true}
                                          : (link){outside, inside, true};
}

/* Notes where the layers or edges of the model itself begin and end. */
static void note_part(eco_text *part, place *w, const eco_tag *tag) {
  w->is_odd |= !tag->is_end == (part->at != NULL);
  if (!tag->is_end) *part = (eco_text){eco_tag_end(tag), 0};
  else if (part->at) part->size = (size_t)(eco_tag_begin(tag) - part->at);
}

static void read_layer(regions *r, place *w, const eco_tag *tag) {
  if (!w->depth || w->depth > 2 || (w->depth == 2 && !w->scope)) return;
  if (!tag->is_end) {
    add_row(r, w, tag);
    return;
  }
  if (w->last[w->depth - 1]) w->last[w->depth - 1]->end = eco_tag_end(tag);
  if (w->depth == 1) w->scope = 0;
}

static void read_tag(regions *r, place *w, const eco_tag *tag) {
  const bool in_region = w->scope && w->depth == 1;
  if (eco_text_is(tag->name, "layers")) {
    if (tag->is_end && w->depth) w->depth--;
    if (!w->depth) note_part(&r->layers, w, tag);
    w->depth += !tag->is_end;
  } else if (eco_text_is(tag->name, "layer")) {
    read_layer(r, w, tag);
  } else if (eco_text_is(tag->name, "edges")) {
    if (!w->depth) note_part(&r->edges, w, tag);
  } else if (eco_text_is(tag->name, "edge") && !tag->is_end) {
    if (!w->depth || in_region) add_edge(r, w, tag);
  } else if (eco_text_is(tag->name, "port_map")) {
    w->in_map = in_region && !tag->is_end;
  } else if (w->in_map && in_region && !tag->is_end) {
    add_map(r, w, tag);
  }
}

/* Allocates the tables for a text; false without memory. */
static bool allocate(const ec_backend_call *c, eco_text text, regions *r) {
  eco_tag tag;
  size_t layers = 1, tags = 1;
  for (eco_text left = text; eco_xml_next(&left, &tag); tags++)
    layers += eco_text_is(tag.name, "layer");
  r->rows = c->host->scratch(c->call, layers * sizeof *r->rows);
  r->by_port = c->host->scratch(c->call, layers * sizeof *r->by_port);
  r->links = c->host->scratch(c->call, tags * sizeof *r->links);
  return r->rows && r->by_port && r->links;
}

/* Reads the text; false if it has no regions, or some that are not the engine's. */
static bool read_text(eco_text text, regions *r) {
  place w = {0};
  eco_tag tag;
  while (!w.is_odd && eco_xml_next(&text, &tag)) read_tag(r, &w, &tag);
  for (size_t i = 0; i < r->row_count; i++) w.is_odd |= !r->rows[i].end;
  return !w.is_odd && r->region_count && r->layers.at && r->edges.at &&
         r->layers.at + r->layers.size <= r->edges.at && sort(r);
}

/* ---- the new text ---------------------------------------------------------------------------- */

static void number_rows(regions *r) {
  uint32_t next = 0;
  for (size_t i = 0; i < r->row_count; i++) {
    r->rows[i].number = next;
    next += !r->rows[i].is_kept ? 0 : r->rows[i].is_saturation ? 2 : 1;
  }
}

/* Writes the first layer of two: a conversion that saturates rounds, too. Its port is that of the
 * conversion's input. */
static void add_rounding(const row *layer, eco_writer *w) {
  const char *begin = eco_tag_end(&layer->tag);
  eco_text left = {begin, (size_t)(layer->end - begin)};
  eco_tag tag;
  eco_add_text(w, "<layer id=\"%u\" name=\"executorch_c.round.%u\" type=\"Round\" "
               "version=\"opset5\"><data mode=\"half_to_even\"/>", (unsigned)layer->number,
               (unsigned)layer->number);
  while (eco_xml_next(&left, &tag) && !eco_text_is(tag.name, "port")) continue;
  const eco_text precision = eco_xml_attribute(&tag, "precision");
  const char *dims = eco_tag_end(&tag);
  while (eco_xml_next(&left, &tag) && !eco_text_is(tag.name, "port")) continue;
  for (int k = 0; k < 2; k++) {
    eco_add_text(w, "<%s><port id=\"%d\" precision=\"", k ? "output" : "input", k);
    eco_add_bytes(w, precision.at, precision.size);
    eco_add_text(w, "\">");
    eco_add_bytes(w, dims, dims < eco_tag_begin(&tag) ? (size_t)(eco_tag_begin(&tag) - dims) : 0);
    eco_add_text(w, "</port></%s>", k ? "output" : "input");
  }
  eco_add_text(w, "</layer>");
}

static void add_layer(const row *layer, eco_writer *w) {
  const eco_text name = eco_xml_attribute(&layer->tag, "name"), all = layer->tag.attributes;
  const eco_text id = eco_xml_attribute(&layer->tag, "id");
  if (layer->is_saturation) {
    add_rounding(layer, w);
    eco_add_text(w, "<layer id=\"%u\" name=\"", (unsigned)layer->number + 1);
    eco_add_bytes(w, name.at, name.size);
    eco_add_text(w, "\" type=\"Convert\" version=\"opset1\">");
  } else {
    eco_add_text(w, "<layer");
    eco_add_bytes(w, all.at, (size_t)(id.at - all.at));
    eco_add_text(w, "%u", (unsigned)layer->number);
    const char *rest = id.at + id.size;
    eco_add_bytes(w, rest, (size_t)(all.at + all.size - rest));
    eco_add_text(w, ">");
  }
  const char *begin = eco_tag_end(&layer->tag);
  eco_add_bytes(w, begin, (size_t)(layer->end - begin));
}

static void add_edge_text(eco_writer *w, uint32_t from, uint32_t from_port, uint32_t to,
                          uint32_t to_port) {
  eco_add_text(w, "<edge from-layer=\"%u\" from-port=\"%u\" to-layer=\"%u\" to-port=\"%u\"/>",
               (unsigned)from, (unsigned)from_port, (unsigned)to, (unsigned)to_port);
}

/* Writes the edges to layers of the new text; false if one begins nowhere. */
static bool add_edges(const regions *r, eco_writer *w) {
  for (size_t i = 0; i < r->row_count; i++)
    if (r->rows[i].is_saturation)
      add_edge_text(w, r->rows[i].number, 1, r->rows[i].number + 1, 0);
  for (size_t i = 0; i < r->link_count; i++) {
    const link *edge = &r->links[i];
    port from = edge->from;
    const row *to = edge->is_same ? NULL : find_row(r, edge->to);
    if (edge->is_same || (to && !to->is_kept)) continue;
    const row *source = to ? find_source(r, &from) : NULL;
    if (!source) return false;
    add_edge_text(w, source->number + source->is_saturation, from.number, to->number,
                  edge->to.number);
  }
  return true;
}

static bool write_text(regions *r, eco_text text, eco_writer *w) {
  number_rows(r);
  eco_add_bytes(w, text.at, (size_t)(r->layers.at - text.at));
  for (size_t i = 0; i < r->row_count; i++)
    if (r->rows[i].is_kept) add_layer(&r->rows[i], w);
  const char *middle = r->layers.at + r->layers.size, *end = r->edges.at + r->edges.size;
  eco_add_bytes(w, middle, (size_t)(r->edges.at - middle));
  if (!add_edges(r, w)) return false;
  eco_add_bytes(w, end, (size_t)(text.at + text.size - end));
  return true;
}

static uint32_t fail_memory(const ec_backend_call *c, size_t size) {
  return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED,
                         "no memory for the regions of a model of %zu bytes", size);
}

/* Replaces the text of a graph by one without regions, if it has some. */
static uint32_t replace_text(const ec_backend_call *c, eco_graph *g) {
  regions r = {0};
  const eco_text text = {g->text, g->text_size};
  if (!allocate(c, text, &r)) return fail_memory(c, text.size);
  if (!read_text(text, &r)) return EC_BACKEND_OK;
  /* a rounding copies the dimensions of one port twice */
  eco_writer w = {.size = 3 * text.size + r.row_count * 2 * LAYER_TEXT +
                          (r.row_count + r.link_count) * EDGE_TEXT};
  w.at = c->host->alloc(w.size);
  if (!w.at) return fail_memory(c, text.size);
  const bool fits = write_text(&r, text, &w);
  c->host->free(fits ? g->text : w.at);
  if (!fits) return EC_BACKEND_OK;
  g->text = w.at;
  g->text_size = w.used;
  return EC_BACKEND_OK;
}

uint32_t eco_regions_open(const ec_backend_call *c, const eco_blob *blob, eco_graph *out) {
  *out = (eco_graph){0};
  EC_BACKEND_TRY(eco_graph_decode(c, blob, out));
  EC_BACKEND_TRY(replace_text(c, out));
  return eco_graph_parse(c, blob, out);
}
