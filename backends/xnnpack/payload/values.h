/* Values of a payload: shapes, datatypes, quantisation, data. */
#ifndef ECX_PAYLOAD_VALUES_H
#define ECX_PAYLOAD_VALUES_H

#include "call.h"
#include "payload/constants.h"
#include "payload/payload.h"

typedef struct ecx_shape {
  size_t rank;
  size_t dims[XNN_MAX_TENSOR_DIMS];
} ecx_shape;

typedef enum ecx_dtype {
  ECX_invalid = 0,
#define ECX_DTYPE(number, name, bits, scalar, as) ECX_##name = (number),
#include "payload/dtypes.def"
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

typedef enum ecx_scheme {
  ECX_PLAIN,
  ECX_PER_TENSOR,  /* scale and zero point */
  ECX_PER_CHANNEL, /* fp32 scales along channel_dim */
  ECX_PER_GROUP,   /* bf16 scales for each group_size elements of a row */
  ECX_PER_TOKEN    /* scales computed at run time */
} ecx_scheme;

typedef struct ecx_value {
  ecx_dtype dtype;
  ecx_scheme scheme;
  bool is_input, is_output; /* of the delegate */
  bool packed;              /* a weight that is read only while the runtime is created */
  bool quantize_here;       /* a float input of an old file that its readers need as qdint8 */
  uint32_t id;              /* as written */
  uint32_t external;        /* position among the delegate's arguments */
  uint32_t producer;        /* node that computes it, or ECX_NONE */
  uint32_t readers;         /* number of nodes that read it */
  ecx_shape shape;          /* of a constant: as written; else: as inferred for the current call */
  ecx_data data;
  int32_t zero_point;
  float scale;
  ecx_data scales;
  uint32_t channel_dim, group_size, nonbatch_dims;
} ecx_value;

uint32_t ecx_value_read(const ecx_call *c, const ecx_payload *payload, uint32_t index,
                        ecx_value *out);
void ecx_value_close(const ec_host *host, ecx_value *value);
/* Computes elements, or bytes in XNNPACK's form (widened). Returns false on overflow. */
bool ecx_shape_count(const ecx_shape *shape, size_t *out);
bool ecx_value_bytes(const ecx_value *value, size_t *out);
bool ecx_shapes_equal(const ecx_shape *a, const ecx_shape *b);
/* Writes "[1, 3, 224, 224]". Returns `text`. */
const char *ecx_shape_text(const ecx_shape *shape, char *text, size_t size);

#endif
