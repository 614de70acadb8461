/* Tables of operators, operators.def of each format:
 *
 *   ECT_OP(name in the payload, operator of the runtime, arguments, results)
 *
 * Arguments are those of the operator's functional schema, in order: for each a letter, and its
 * source in the payload, a digit or a name in parentheses; without a source, the node's next
 * argument:
 *   =  as it is         q  as int64    d  as float64    h  float16 as float32
 *   #k  the number k    N  None        T, F  true, false
 *   .  dropped: no argument    $k  the result of step k
 * Other letters are the format's. Results: a letter for each, = q d or h as above, or another of
 * the format's. NULL: = everywhere.
 *
 *   ECT_STEPS(name, steps)        several calls, "operator arguments; operator arguments": the last
 *                                 one has the node's result; earlier results have its dtype and
 *                                 sizes, after < those of their first argument
 *   ECT_NUMBER(name, operator)    on numbers; the result is its last argument
 *   ECT_SPECIAL(name, function)   a function of the format
 *   ECT_SEVERAL(name, function)   likewise; it has several results, or none
 *   ECT_LATER(name)               refused */
#ifndef ECT_ROWS_H
#define ECT_ROWS_H

#include "names.h"
#include "values.h"

typedef enum ect_row_kind {
  ECT_ROW_OP,
  ECT_ROW_STEPS,
  ECT_ROW_NUMBER,
  ECT_ROW_SPECIAL,
  ECT_ROW_SEVERAL,
  ECT_ROW_LATER
} ect_row_kind;

typedef void ect_function(void); /* converted to the format's type before a call */

typedef struct ect_row {
  const char *name;
  uint8_t kind;
  const char *op, *args, *results;
  ect_function *special;
} ect_row;

#define ECT_OP(name, op, args, results) {name, ECT_ROW_OP, op, args, results, NULL},
#define ECT_STEPS(name, steps) {name, ECT_ROW_STEPS, NULL, steps, NULL, NULL},
#define ECT_NUMBER(name, op) {name, ECT_ROW_NUMBER, op, NULL, NULL, NULL},
#define ECT_SPECIAL(name, function)                                                                \
  {name, ECT_ROW_SPECIAL, NULL, NULL, NULL, (ect_function *)(function)},
#define ECT_SEVERAL(name, function)                                                                \
  {name, ECT_ROW_SEVERAL, NULL, NULL, NULL, (ect_function *)(function)},
#define ECT_LATER(name) {name, ECT_ROW_LATER, NULL, NULL, NULL, NULL},

/* Returns NULL if there is no such row. */
#define ECT_FIND_ROW(rows, name) ect_find_row(rows, sizeof(rows) / sizeof *(rows), name)
const ect_row *ect_find_row(const ect_row *rows, size_t count, ect_text name);

/* An argument of a row. */
typedef struct ect_item {
  char letter;
  char source[32];  /* "" without one */
  uint32_t index;   /* without a source: among the node's arguments */
} ect_item;

/* Reads the value of an item that the payload has. */
typedef uint32_t ect_read_fn(void *node, const ect_item *item, int64_t *out);

/* Fills the arguments of a row, at most ECT_MAX_ARGS, up to a semicolon; `results` are those of
 * earlier steps. Returns the first status of `read` that is not EC_BACKEND_OK. `*taken` is the
 * number of arguments of the node without sources. */
uint32_t ect_read_items(ect_program *p, const char *items, const int64_t *results,
                        ect_read_fn *read, void *node, int64_t *args, size_t *count,
                        uint32_t *taken);

/* Returns the dtype that a letter converts to. */
int32_t ect_letter_dtype(char letter, int32_t dtype);
/* Converts a tensor, unless it has the dtype; lists of tensors by item, to optional tensors. */
int64_t ect_convert(ect_program *p, int64_t value, int32_t dtype);

#endif
