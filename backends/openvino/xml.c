/* Tags, attributes and numbers of XML. Each byte is read a bounded number of times. */
#include "xml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool eco_text_is(eco_text text, const char *word) {
  return strlen(word) == text.size && memcmp(text.at, word, text.size) == 0;
}

static const char *find_byte(const char *at, const char *end, char byte) {
  return at < end ? memchr(at, byte, (size_t)(end - at)) : NULL;
}

/* Returns the '>' that ends a tag: one that is not in a quoted value. */
static const char *find_tag_end(const char *at, const char *end) {
  char quote = 0;
  for (; at < end; at++) {
    if (quote)
      quote = *at == quote ? 0 : quote;
    else if (*at == '>')
      return at;
    else if (*at == '"' || *at == '\'')
      quote = *at;
  }
  return NULL;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool eco_xml_next(eco_text *text, eco_tag *out) {
  const char *end = text->at + text->size;
  const char *open = find_byte(text->at, end, '<');
  const char *close = open ? find_tag_end(open + 1, end) : NULL;
  if (!close) return false;
  const char *at = open + 1;
  out->is_end = at < close && *at == '/';
  at += out->is_end;
  const char *stop = at;
  while (stop < close && !is_space(*stop) && *stop != '/') stop++;
  out->name = (eco_text){at, (size_t)(stop - at)};
  out->attributes = (eco_text){stop, (size_t)(close - stop)};
  const char *next = find_byte(close + 1, end, '<');
  out->body = (eco_text){close + 1, (size_t)((next ? next : end) - close - 1)};
  *text = (eco_text){close + 1, (size_t)(end - close - 1)};
  return true;
}

const char *eco_tag_begin(const eco_tag *tag) { return tag->name.at - 1 - tag->is_end; }

const char *eco_tag_end(const eco_tag *tag) {
  return tag->attributes.at + tag->attributes.size + 1; /* '>' */
}

eco_text eco_xml_attribute(const eco_tag *tag, const char *name) {
  const char *at = tag->attributes.at, *end = at + tag->attributes.size;
  while (at < end) {
    while (at < end && is_space(*at)) at++;
    const char *equals = find_byte(at, end, '='), *quote = equals ? equals + 1 : end;
    if (quote >= end || (*quote != '"' && *quote != '\'')) break;
    const char *stop = find_byte(quote + 1, end, *quote);
    if (!stop) break;
    if (eco_text_is((eco_text){at, (size_t)(equals - at)}, name))
      return (eco_text){quote + 1, (size_t)(stop - quote - 1)};
    at = stop + 1;
  }
  return (eco_text){"", 0};
}

bool eco_text_number(eco_text text, int64_t *out) {
  const bool negative = text.size && text.at[0] == '-';
  int64_t value = 0;
  if (text.size == (size_t)negative || text.size > 18) return false;
  for (size_t i = negative; i < text.size; i++) {
    if (text.at[i] < '0' || text.at[i] > '9') return false;
    value = value * 10 + (text.at[i] - '0');
  }
  *out = negative ? -value : value;
  return true;
}

bool eco_xml_index(const eco_tag *tag, const char *name, uint32_t *out) {
  int64_t value;
  if (!eco_text_number(eco_xml_attribute(tag, name), &value)) return false;
  if (value < 0 || value > UINT32_MAX) return false;
  *out = (uint32_t)value;
  return true;
}

void eco_add_bytes(eco_writer *w, const char *bytes, size_t size) {
  memcpy(w->at + w->used, bytes, size);
  w->used += size;
}

void eco_add_text(eco_writer *w, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  const int size = vsnprintf(w->at + w->used, w->size - w->used, fmt, args);
  va_end(args);
  if (size > 0) w->used += (size_t)size;
}
