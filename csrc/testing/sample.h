/* A small .pte and a small .ptd made by hand, with every table of their schemas in them. */
#ifndef EC_TESTING_SAMPLE_H
#define EC_TESTING_SAMPLE_H

#include "testing/fb_build.h"

enum { EC_SAMPLE_HEADER = 32, EC_SAMPLE_SEGMENTS = 64 };

/* A program: identifier, extended header of 32 bytes, tables, 64 bytes of segments (constants at
 * offset 0 of 32 bytes, named data and delegate data at 32 of 16, an empty one). */
void ec_sample_pte(ec_build *b);

/* Where the tables of the sample stop and the segments start. */
size_t ec_sample_pte_program_size(const ec_build *b);

/* Where the table in value `index` of the program is: 0 the input (a tensor), 1 a constant, 9 a
 * list of both. */
size_t ec_sample_value(const ec_build *b, uint32_t index);

/* Tensor data: one tensor float32 (2, 2) named "weight" and one blob named "blob". */
void ec_sample_ptd(ec_build *b);

/* Overwrites an integer of the header or anything else. */
void ec_sample_poke(ec_build *b, size_t at, uint64_t value, size_t size);

/* Reads every byte that a verified table leads to, so that a sanitizer sees what the verifier let
 * through; returns a sum of them. */
uint64_t ec_sample_read_all(ec_fb_table table, const ec_fb_schema *schema);

#endif
