/* FlatBuffers from text, by the schema tables that the verifier walks:
 *
 *   ec_text_build(&b, ec_pte_schema(),
 *                 "{version: 3, execution_plan: [{name: 'forward', inputs: [0 1],"
 *                 " values: [{val: Int {int_val: 7}}, {val: DoubleList {items: [0.5 -2]}}]}]}");
 *
 * Integers and floats are as wide as the schema says, floats have a point; bytes may be a string;
 * [{...}*3] is one table three times; commas are blanks. A table has all scalars of its schema,
 * zero where the text has none, and the other fields of the text. A wrong text ends the tests. */
#ifndef EC_TESTING_FB_TEXT_H
#define EC_TESTING_FB_TEXT_H

#include "format/fb.h"
#include "testing/fb_build.h"

/* Appends the tables to `b`, and links the root from its first bytes. */
void ec_text_build(ec_fb_writer *b, const ec_fb_schema *schema, const char *text);

/* Returns the offset of a field's content by its path, "execution_plan[0].values[1].val.sizes[0]";
 * of a vector or a string without an index, the offset of its count. */
size_t ec_text_find(const ec_fb_writer *b, const ec_fb_schema *schema, const char *path);

/* Returns the offset of the field in its table: a scalar, or the reference to its content. */
size_t ec_text_slot(const ec_fb_writer *b, const ec_fb_schema *schema, const char *path);

/* Overwrites the scalar, item of a vector, or count at a path. */
void ec_text_set(ec_fb_writer *b, const ec_fb_schema *schema, const char *path, uint64_t value);

/* Makes a field absent. */
void ec_text_drop(ec_fb_writer *b, const ec_fb_schema *schema, const char *path);

#endif
