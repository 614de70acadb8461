/* What a payload says, as native structs: values and nodes whose every number has been checked.
 * payload.c finds the pieces, values.c and graph.c read and check them; nothing after that looks
 * at untrusted bytes, but for nodes' parameters, which shapes_*.c check. */
#ifndef ECX_GRAPH_H
#define ECX_GRAPH_H

#include "executorch_c/backend.h"
#include <xnnpack.h>

#include "format/fb.h"
#include "schema.h"

/* Limits for hostile input. */
enum {
  ECX_MAX_EXTERNS = 4096, /* the reference's */
  ECX_MAX_ID = 1 << 20,   /* of a value; the exporter counts from 0 */
  ECX_MAX_INPUTS = 5,
  ECX_MAX_OUTPUTS = 2,
  ECX_TEXT = 320 /* bytes of a piece of a sentence */
};
/* So many bytes are allocated behind what XNNPACK reads: it may read XNN_EXTRA_BYTES too far. */
enum { ECX_EXTRA = 2 * XNN_EXTRA_BYTES };
#define ECX_MAX_VALUE_BYTES ((size_t)1 << 34)
#define ECX_NONE UINT32_MAX

/* One call of init or execute. */
typedef struct ecx_call {
  const ec_host *host;
  ec_host_call *call;
} ecx_call;

/* Sets the sentence and returns the status. */
#define ecx_fail(c, ...) ((c)->host->fail((c)->call, __VA_ARGS__))

#define ECX_TRY(expression)                                                                        \
  do {                                                                                             \
    uint32_t ecx_try_status = (expression);                                                        \
    if (ecx_try_status) return ecx_try_status;                                                     \
  } while (0)

typedef struct ecx_shape {
  size_t rank;
  size_t dims[XNN_MAX_TENSOR_DIMS];
} ecx_shape;

typedef enum ecx_dtype {
  ECX_invalid = 0,
#define ECX_DTYPE(number, name, bits, scalar, as) ECX_##name = (number),
#include "dtypes.def"
#undef ECX_DTYPE
  ECX_DTYPES = 16
} ecx_dtype;

typedef struct ecx_dtype_info {
  const char *name; /* NULL: unknown */
  uint8_t bits;
  int8_t scalar;
  enum xnn_datatype as;
} ecx_dtype_info;

extern const ecx_dtype_info ecx_dtypes[ECX_DTYPES];

/* Bytes of a payload, of the program's named data, or a copy of either. */
typedef struct ecx_data {
  const void *at; /* NULL: there is none */
  size_t size;
  const char *key; /* of named data; NULL: the payload's own */
  void *copy;      /* what `at` points to, where it had to be copied */
} ecx_data;

typedef enum ecx_scheme {
  ECX_PLAIN,
  ECX_PER_TENSOR,  /* scale and zero point */
  ECX_PER_CHANNEL, /* fp32 scales along channel_dim */
  ECX_PER_GROUP,   /* bf16 scales for each group_size elements of a row */
  ECX_PER_TOKEN    /* scales made at run time */
} ecx_scheme;

typedef struct ecx_value {
  ecx_dtype dtype;
  ecx_scheme scheme;
  bool is_input, is_output; /* of the delegate */
  bool packed;              /* a weight that is read only while the runtime is made */
  bool quantize_here;       /* a float input of an old file that its readers want as qdint8 */
  uint32_t id;              /* as written */
  uint32_t external;        /* position among the delegate's arguments */
  uint32_t producer;        /* node that computes it, or ECX_NONE */
  uint32_t readers;         /* number of nodes that read it */
  ecx_shape shape;          /* of a constant: as written; else: as inferred, for the present call */
  ecx_data data;
  int32_t zero_point;
  float scale;
  ecx_data scales;
  uint32_t channel_dim, group_size, nonbatch_dims;
} ecx_value;

typedef struct ecx_kind ecx_kind; /* nodes.h */

typedef struct ecx_node {
  const ecx_kind *kind;
  ec_fb_table params;
  uint32_t index, debug_handle, flags;
  uint32_t in[ECX_MAX_INPUTS], out[ECX_MAX_OUTPUTS]; /* values; ECX_NONE: absent */
  float min, max;
  bool is_dead; /* nobody reads what it computes: XNNPACK is not told of it (it may abort) */
} ecx_node;

typedef struct ecx_graph {
  ecx_value *values;
  ecx_node *nodes;
  uint32_t value_count, node_count, extern_count;
  uint32_t *inputs, *outputs; /* values, by position among the arguments */
  uint32_t input_count, output_count, arg_count;
} ecx_graph;

/* Where a payload's pieces are. */
typedef struct ecx_payload {
  ec_fb_table root;
  const uint8_t *constants; /* behind the FlatBuffer; NULL: a bare FlatBuffer */
  size_t constants_size;
} ecx_payload;

/* payload.c */
uint32_t ecx_payload_open(const ecx_call *c, const void *data, size_t size, ecx_payload *out);

/* graph.c: fills `graph` (zeroed); ecx_graph_close also where it failed. `payload` may go. */
uint32_t ecx_graph_open(const ecx_call *c, const ecx_payload *payload, ecx_graph *graph);
void ecx_graph_close(const ec_host *host, ecx_graph *graph);
/* Gives every computed value its shape for the present shapes of the inputs. */
uint32_t ecx_graph_infer(const ecx_call *c, ecx_graph *graph);
/* Whether XNNPACK can run it where some values are empty and some outputs are not. */
uint32_t ecx_graph_check_empty(const ecx_call *c, const ecx_graph *graph);
/* Like ecx_fail with "node 3 (Conv2d, debug handle 17): " in front. */
uint32_t ecx_fail_node(const ecx_call *c, const ecx_node *node, uint32_t status, const char *fmt,
                       ...) __attribute__((format(printf, 4, 5)));

/* values.c */
uint32_t ecx_value_read(const ecx_call *c, const ecx_payload *payload, uint32_t index,
                        ecx_value *out);
void ecx_value_close(const ec_host *host, ecx_value *value);
/* Elements, and bytes as XNNPACK holds them (widened); false where that overflows. */
bool ecx_shape_count(const ecx_shape *shape, size_t *out);
bool ecx_value_bytes(const ecx_value *value, size_t *out);
/* "[1, 3, 224, 224]" */
const char *ecx_shape_text(const ecx_shape *shape, char *text, size_t size);

/* constants.c: the data of constant `index` of the payload, readable XNN_EXTRA_BYTES beyond its end
 * and aligned to 16 bytes. `what` for messages. */
uint32_t ecx_constant(const ecx_call *c, const ecx_payload *payload, uint32_t index,
                      const char *what, ecx_data *out);
/* The same for bytes of the FlatBuffer. */
uint32_t ecx_constant_inline(const ecx_call *c, const void *at, size_t size, ecx_data *out);
/* Whether XNN_EXTRA_BYTES behind the end of [at, at + size) are on a page of its own. */
bool ecx_crosses_page(const void *at, size_t size);
void ecx_data_close(const ec_host *host, ecx_data *data);
/* Replaces bfloat16 values by float32. */
uint32_t ecx_widen(const ecx_call *c, ecx_data *data);

#endif
