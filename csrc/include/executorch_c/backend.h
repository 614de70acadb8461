/* The interface of a backend: the only header that one needs. (Operators: operator.h.)
 *
 * A backend runs the delegated parts of a program. It is a static `ec_backend` in a shared library,
 * handed to executorch_c as a capsule named EC_BACKEND_CAPSULE by a tiny extension module, and
 * found through the entry-point group "executorch_c.backends" or registered by hand
 * (executorch_c.register_backend(capsule)). It links to nothing: what it needs from the runtime is
 * in the `ec_host` table that every call gets.
 *
 * Threads: init and destroy may be called from any thread. execute is never called twice at once
 * on one handle, but on different handles at once. The GIL is not held in any of them. */
#ifndef EXECUTORCH_C_BACKEND_H
#define EXECUTORCH_C_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_BACKEND_ABI_VERSION 1u
#define EC_BACKEND_CAPSULE "executorch_c.backend"

/* Statuses are the codes of ExecuTorch's runtime/core/error.h; these are the ones backends use. */
enum {
  EC_BACKEND_OK = 0x00,
  EC_BACKEND_INTERNAL = 0x01,
  EC_BACKEND_INVALID_STATE = 0x02,
  EC_BACKEND_NOT_SUPPORTED = 0x10,
  EC_BACKEND_NOT_IMPLEMENTED = 0x11,
  EC_BACKEND_INVALID_ARGUMENT = 0x12,
  EC_BACKEND_NOT_FOUND = 0x20,
  EC_BACKEND_ALLOCATION_FAILED = 0x21,
  EC_BACKEND_INVALID_PROGRAM = 0x23,
  EC_BACKEND_INCOMPATIBLE = 0x30 /* the payload is of another version */
};

/* Kinds of arguments: ExecuTorch's EValue tags. Lists are not passed to backends. */
enum {
  EC_BACKEND_NONE = 0,
  EC_BACKEND_TENSOR = 1,
  EC_BACKEND_STRING = 2,
  EC_BACKEND_DOUBLE = 3,
  EC_BACKEND_INT = 4,
  EC_BACKEND_BOOL = 5
};

/* A tensor argument. Read-only for the backend, but for the bytes at `data` of its outputs. */
typedef struct ec_backend_tensor {
  void *data;               /* NULL only where nbytes is 0 */
  size_t nbytes;            /* of the present shape */
  size_t capacity;          /* bytes that may be used at data */
  int32_t dtype;            /* c10::ScalarType: 6 float32, 4 int64, ... */
  uint16_t rank;            /* at most 16 */
  bool writable;            /* false: a constant or a caller's array; refuse it as an output */
  const int64_t *sizes;
  const int64_t *strides;   /* in elements; always dense in dim_order */
  const uint8_t *dim_order; /* outermost dimension first */
} ec_backend_tensor;

typedef struct ec_backend_arg {
  uint32_t kind;
  union {
    ec_backend_tensor tensor;
    int64_t i;
    double d;
    bool b;
    struct {
      const char *data; /* NUL-terminated */
      size_t size;
    } string;
    struct {
      struct ec_backend_arg *items;
      size_t count;
    } list; /* of operators only: see operator.h */
  } as;
  void *slot; /* the host's own */
} ec_backend_arg;

/* A compile spec: bytes of any length under a key, as written at export. */
typedef struct ec_backend_spec {
  const char *key;
  const void *value;
  size_t size;
} ec_backend_spec;

/* An option: of one method, given when it is loaded, or of the process. */
typedef struct ec_backend_option {
  const char *key;
  uint32_t kind; /* EC_BACKEND_BOOL, _INT, _DOUBLE or _STRING */
  union {
    bool b;
    int64_t i;
    double d;
    const char *string;
  } as;
} ec_backend_option;

/* What a delegate is made from. All of it lives until destroy. */
typedef struct ec_backend_init {
  const char *method;  /* name of the method that is being loaded */
  const void *payload; /* may be empty (size 0); aligned to 16 bytes as a rule, do not rely on it */
  size_t payload_size;
  const ec_backend_spec *specs;
  size_t spec_count;
  const ec_backend_option *options; /* of this method; refuse unknown keys */
  size_t option_count;
  const void *program; /* says which delegates are of one program; never read through it */
  const void *instance; /* likewise of one loaded method, which runs them one after the other */
} ec_backend_init;

/* What a trace of a call asks for: bits of ec_host.trace_wants. */
enum { EC_BACKEND_TRACE_TIMES = 1, EC_BACKEND_TRACE_VALUES = 2, EC_BACKEND_TRACE_INPUTS = 4 };

/* A node inside a delegate that has run. */
typedef struct ec_backend_node {
  uint32_t debug_handle;   /* as the exporter wrote it; UINT32_MAX: none */
  const char *name;        /* "Convolution (NHWC, F32) IGEMM" */
  uint64_t nanoseconds;    /* that it took */
} ec_backend_node;

typedef struct ec_host_call ec_host_call;       /* one call of init or execute */
typedef struct ec_host_program ec_host_program; /* a program inside a payload */

/* What the runtime lends. `call` is that of the present init or execute. */
typedef struct ec_host {
  uint32_t abi_version;
  size_t struct_size; /* members may be added behind: check before using later ones */

  /* Sets the sentence that the user reads (what, found, expected) and returns `status`. */
  uint32_t (*fail)(ec_host_call *call, uint32_t status, const char *fmt, ...);

  /* Heap memory, 64-byte aligned, zeroed; NULL on failure. free may be called from destroy. */
  void *(*alloc)(size_t size);
  void (*free)(void *block);
  /* Memory until the present call returns; NULL on failure. */
  void *(*scratch)(ec_host_call *call, size_t size);

  /* Data by key, from the program or a .ptd beside it; lives until destroy. NOT_FOUND without a
   * sentence: say it in your own words with fail. */
  uint32_t (*named_data)(ec_host_call *call, const char *key, const void **data, size_t *size);

  /* Gives an output its shape; afterwards arg->as.tensor is up to date. Fails with a sentence
   * where the program does not allow the shape. */
  uint32_t (*resize)(ec_host_call *call, ec_backend_arg *arg, size_t rank, const int64_t *sizes);

  /* Runs fn(user, begin, end) over [0, count) in pieces of at least `grain`, perhaps on several
   * threads of the method's; returns when all are done. fn must not use threadpool(). */
  void (*parallel_for)(ec_host_call *call, size_t count, size_t grain,
                       void (*fn)(void *user, size_t begin, size_t end), void *user);

  /* A .pte inside a payload: opens one of its methods; runs it on args (its inputs, then its
   * outputs); closes it. `data` must live until close. Nesting is limited. */
  uint32_t (*program_open)(ec_host_call *call, const void *data, size_t size, const char *method,
                           ec_host_program **out);
  uint32_t (*program_run)(ec_host_call *call, ec_host_program *program, ec_backend_arg *args,
                          size_t count);
  void (*program_close)(ec_host_program *program);

  /* The method's pthreadpool_t, of the pthreadpool that executorch_c was built with; NULL: work on
   * the calling thread. Lives until destroy; but a forked process has no threads, and gets another
   * pool there: what holds on to one compares it in execute. */
  void *(*threadpool)(ec_host_call *call);

  /* Says that named data or a part of a payload will hardly be read again, because it has been
   * packed. Where it is a mapped file its pages leave memory (and come back when they are read). */
  void (*release_pages)(ec_host_call *call, const void *data, size_t size);

  /* Tracing. What the present call is asked to report (0 as a rule); then, in order of execution,
   * a node that has run, and a value that the (last) node of this handle has computed (copied). */
  uint32_t (*trace_wants)(ec_host_call *call);
  void (*trace_node)(ec_host_call *call, const ec_backend_node *node);
  void (*trace_value)(ec_host_call *call, uint32_t debug_handle, const ec_backend_tensor *value);
  /* Likewise what a node has taken, constants included, where that is asked for. */
  void (*trace_input)(ec_host_call *call, uint32_t debug_handle, const ec_backend_tensor *value);
} ec_host;

/* A payload from inside, as the optional member `describe` shows it to people: values, and nodes in
 * order of execution. Pointers need to live for the call only; texts may be NULL. */
typedef struct ec_backend_inner_value {
  uint32_t id;           /* any number of the backend's own */
  uint32_t argument;     /* position among the delegate's arguments; UINT32_MAX: it is none */
  bool constant;
  const char *dtype;     /* "fp32", "qcint8" */
  const char *note;      /* "scale 0.5, zero point 3", ... */
  size_t rank, nbytes;
  const int64_t *sizes;  /* NULL: not known */
} ec_backend_inner_value;

typedef struct ec_backend_inner_node {
  uint32_t debug_handle; /* as for ec_backend_node */
  const char *name;      /* "Conv2d" */
  const char *note;      /* "stride_height=2, ..." */
  const uint32_t *inputs, *outputs; /* ids of values */
  size_t input_count, output_count;
} ec_backend_inner_node;

typedef struct ec_backend_visitor {
  size_t struct_size; /* members may be added behind */
  void *user;
  void (*value)(void *user, const ec_backend_inner_value *value);
  void (*node)(void *user, const ec_backend_inner_node *node);
} ec_backend_visitor;

typedef struct ec_backend ec_backend;
struct ec_backend {
  uint32_t abi_version; /* EC_BACKEND_ABI_VERSION */
  size_t struct_size;   /* sizeof(ec_backend) as compiled */
  const char *id;       /* as written in the .pte: "XnnpackBackend" */
  const char *version;  /* of the backend, for people; may be NULL */
  void *user;

  /* Whether it can run on this machine; NULL means yes. */
  bool (*is_available)(const ec_backend *self);

  /* Makes a delegate. On failure *handle is ignored and destroy is not called. */
  uint32_t (*init)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                   const ec_backend_init *init, void **handle);

  /* Runs a delegate: args are its inputs, then its outputs. The count is the program's, not
   * checked: check it, and kinds, dtypes and shapes. */
  uint32_t (*execute)(const ec_backend *self, const ec_host *host, ec_host_call *call, void *handle,
                      ec_backend_arg *args, size_t count);

  /* Frees a delegate; NULL where there is nothing to free. */
  void (*destroy)(const ec_backend *self, const ec_host *host, void *handle);

  /* Members from here on are optional (NULL), and absent where struct_size says so. */

  /* Options of the process. NOT_FOUND without a sentence for an unknown key; get is given the key
   * and fills in kind and value, whose string lives until the option is set again. */
  uint32_t (*set_option)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_option *option);
  uint32_t (*get_option)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         ec_backend_option *option);
  /* Keys of such options, NULL-terminated. */
  const char *const *option_keys;

  /* Figures of a delegate: calls add(user, name, value) for each ("packed_bytes", ...). */
  void (*report)(const ec_backend *self, void *handle,
                 void (*add)(void *user, const char *name, int64_t value), void *user);

  /* Shows what is in a payload, without making a delegate: no options, nothing compiled. The bytes
   * are as untrusted as those of init. */
  uint32_t (*describe)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                       const ec_backend_init *init, const ec_backend_visitor *visitor);
};

#endif
