/* A bounded reader of XML tags: enough for the models that OpenVINO writes. A writer of text. */
#ifndef ECO_XML_H
#define ECO_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the text, not NUL-terminated. */
typedef struct eco_text {
  const char *at;
  size_t size;
} eco_text;

typedef struct eco_tag {
  eco_text name;       /* "layer" */
  eco_text attributes; /* up to '>' or "/>" */
  eco_text body;       /* the text up to the next tag */
  bool is_end;         /* "</layer>" */
} eco_tag;

/* Reads the next tag and removes it from `text`; false at the end, or at text other than XML. */
bool eco_xml_next(eco_text *text, eco_tag *out);

/* Returns where a tag begins, and where the text after it begins. */
const char *eco_tag_begin(const eco_tag *tag);
const char *eco_tag_end(const eco_tag *tag);

bool eco_text_is(eco_text text, const char *word);

/* Returns an attribute's value; empty if the tag does not have it. */
eco_text eco_xml_attribute(const eco_tag *tag, const char *name);

/* Parses a decimal number of up to 18 digits. */
bool eco_text_number(eco_text text, int64_t *out);
/* Parses a number of at most UINT32_MAX of an attribute. */
bool eco_xml_index(const eco_tag *tag, const char *name, uint32_t *out);

/* A text that grows to a size known before. */
typedef struct eco_writer {
  char *at;
  size_t used, size;
} eco_writer;

void eco_add_bytes(eco_writer *w, const char *bytes, size_t size);
void eco_add_text(eco_writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
