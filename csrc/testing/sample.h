/* A small hand-made .pte and .ptd with every table of their schemas. */
#ifndef EC_TESTING_SAMPLE_H
#define EC_TESTING_SAMPLE_H

#include "testing/fb_text.h"

enum { EC_SAMPLE_HEADER = 32, EC_SAMPLE_SEGMENTS = 64 };

/* A program: identifier, extended header of 32 bytes, tables, 64 bytes of segments (constants: 32
 * bytes at offset 0; named data and delegate data: 16 at 32; an empty one). */
void ec_sample_pte(ec_fb_writer *b);

/* Returns the end of the sample's tables, the start of its segments. */
size_t ec_sample_pte_program_size(const ec_fb_writer *b);

/* Tensor data: one tensor float32 (2, 2) named "weight" and one blob named "blob". */
void ec_sample_ptd(ec_fb_writer *b);

/* Returns the sum of all bytes that a verified table leads to, so that a sanitizer detects a read
 * that the verifier should have refused. */
uint64_t ec_sample_read_all(ec_fb_table table, const ec_fb_schema *schema);

#endif
