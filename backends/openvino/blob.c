/* The header of a payload, and the key of its model. */
#include "blob.h"

#include <string.h>

enum { WORDS = 6, HEADER = 8 * WORDS };
enum { ABOUT, ABOUT_SIZE, CONSTANTS, CONSTANTS_SIZE, MODEL, MODEL_SIZE };

static const char declaration[] = "<?xml version=\"1.0\"?>";

static uint64_t read_word(const uint8_t *bytes, size_t i) {
  uint64_t word = 0;
  for (size_t b = 8; b-- > 0;) word = word << 8 | bytes[8 * i + b];
  return word;
}

/* The three parts follow one another, and fill the payload. Sums cannot overflow: each part is
 * compared with what is left. */
static bool parts_fit(const uint64_t *words, uint64_t size) {
  uint64_t left = size - HEADER, at = HEADER;
  for (size_t part = 0; part < WORDS; part += 2) {
    if (words[part] != at || words[part + 1] > left) return false;
    at += words[part + 1];
    left -= words[part + 1];
  }
  return left == 0;
}

/* Derives the key: the model begins like every XML file. */
static uint32_t find_key(const ec_backend_call *c, eco_blob *blob) {
  const size_t size = sizeof declaration - 1;
  bool is_xml = blob->model_size > size;
  for (size_t i = 0; is_xml && i < ECO_KEY; i++)
    blob->key[i] = (uint8_t)(blob->model[i] ^ (uint8_t)declaration[i]);
  for (size_t i = ECO_KEY; is_xml && i < size; i++)
    is_xml = eco_blob_text(blob, i) == declaration[i];
  if (is_xml) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                         "the model of %zu bytes is not XML, expected "
                         "OpenVINO's IR",
                         blob->model_size);
}

size_t eco_blob_prefix(const eco_blob *blob, const void *payload) {
  return (size_t)(blob->model - (const uint8_t *)payload);
}

void eco_blob_replace(const eco_blob *blob, const void *payload, const char *text, size_t size,
                      uint8_t *out) {
  const size_t prefix = eco_blob_prefix(blob, payload);
  memcpy(out, payload, prefix);
  for (size_t b = 0; b < 8; b++) out[8 * MODEL_SIZE + b] = (uint8_t)((uint64_t)size >> (8 * b));
  for (size_t i = 0; i < size; i++)
    out[prefix + i] = (uint8_t)((uint8_t)text[i] ^ blob->key[i % ECO_KEY]);
}

uint32_t eco_blob_open(const ec_backend_call *c, const ec_backend_init *what, eco_blob *out) {
  const uint8_t *bytes = what->payload;
  uint64_t words[WORDS];
  *out = (eco_blob){0};
  if (!bytes || !what->payload_size)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "the payload is empty, expected a model that "
                           "OpenVINO has exported");
  if (what->payload_size < HEADER || read_word(bytes, ABOUT) != HEADER) return EC_BACKEND_OK;
  for (size_t i = 0; i < WORDS; i++) words[i] = read_word(bytes, i);
  if (!parts_fit(words, what->payload_size))
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_PROGRAM,
        "the payload has %zu bytes, but its header states a description of %llu bytes, "
        "constants of %llu at %llu and a model of %llu at %llu",
        what->payload_size, (unsigned long long)words[ABOUT_SIZE],
        (unsigned long long)words[CONSTANTS_SIZE], (unsigned long long)words[CONSTANTS],
        (unsigned long long)words[MODEL_SIZE], (unsigned long long)words[MODEL]);
  out->is_known = true;
  out->constants = bytes + words[CONSTANTS];
  out->constants_size = (size_t)words[CONSTANTS_SIZE];
  out->model = bytes + words[MODEL];
  out->model_size = (size_t)words[MODEL_SIZE];
  return find_key(c, out);
}
