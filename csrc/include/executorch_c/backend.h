/* The interface of a backend, in one header. (Operators: operator.h.)
 *
 * A backend runs the delegated parts of a program. It is a static `ec_backend` in a shared library.
 * A small extension module passes it to executorch_c as a capsule named EC_BACKEND_CAPSULE. The
 * module is found through the entry-point group "executorch_c.backends" or registered explicitly
 * (executorch_c.register_backend(capsule)). A backend links to none of our libraries: every call
 * receives the runtime's functions in the `ec_host` table.
 *
 * Threads: init and destroy may be called from any thread. Calls of execute on one handle are
 * serialised; calls on different handles may run concurrently. No function holds the GIL. */
#ifndef EXECUTORCH_C_BACKEND_H
#define EXECUTORCH_C_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_BACKEND_ABI_VERSION 1u
#define EC_BACKEND_CAPSULE "executorch_c.backend"

/* Statuses are the codes of ExecuTorch's runtime/core/error.h; these are the ones for backends. */
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
  EC_BACKEND_INCOMPATIBLE = 0x30 /* the payload has another version */
};

/* Kinds of arguments: ExecuTorch's EValue tags. Backends receive no lists. */
enum {
  EC_BACKEND_NONE = 0,
  EC_BACKEND_TENSOR = 1,
  EC_BACKEND_STRING = 2,
  EC_BACKEND_DOUBLE = 3,
  EC_BACKEND_INT = 4,
  EC_BACKEND_BOOL = 5
};

/* dtypes: the numbers of c10::ScalarType. */
enum {
  EC_DTYPE_UINT8 = 0,
  EC_DTYPE_INT8 = 1,
  EC_DTYPE_INT16 = 2,
  EC_DTYPE_INT32 = 3,
  EC_DTYPE_INT64 = 4,
  EC_DTYPE_FLOAT16 = 5,
  EC_DTYPE_FLOAT32 = 6,
  EC_DTYPE_FLOAT64 = 7,
  EC_DTYPE_COMPLEX64 = 9,
  EC_DTYPE_COMPLEX128 = 10,
  EC_DTYPE_BOOL = 11,
  EC_DTYPE_BFLOAT16 = 15,
  EC_DTYPE_FLOAT8_E5M2 = 23,
  EC_DTYPE_FLOAT8_E4M3FN = 24,
  EC_DTYPE_FLOAT8_E5M2FNUZ = 25,
  EC_DTYPE_FLOAT8_E4M3FNUZ = 26,
  EC_DTYPE_UINT16 = 27,
  EC_DTYPE_UINT32 = 28,
  EC_DTYPE_UINT64 = 29
};

/* Returns the bytes of an element; 0: not a dtype. */
static inline size_t ec_backend_dtype_size(int32_t dtype) {
  static const uint8_t sizes[] = {
      [EC_DTYPE_UINT8] = 1,       [EC_DTYPE_INT8] = 1,    [EC_DTYPE_INT16] = 2,
      [EC_DTYPE_INT32] = 4,       [EC_DTYPE_INT64] = 8,   [EC_DTYPE_FLOAT16] = 2,
      [EC_DTYPE_FLOAT32] = 4,     [EC_DTYPE_FLOAT64] = 8, [EC_DTYPE_COMPLEX64] = 8,
      [EC_DTYPE_COMPLEX128] = 16, [EC_DTYPE_BOOL] = 1,    [EC_DTYPE_BFLOAT16] = 2,
      [EC_DTYPE_UINT16] = 2,      [EC_DTYPE_UINT32] = 4,  [EC_DTYPE_UINT64] = 8,
      [EC_DTYPE_FLOAT8_E5M2] = 1, [EC_DTYPE_FLOAT8_E4M3FN] = 1,
      [EC_DTYPE_FLOAT8_E5M2FNUZ] = 1, [EC_DTYPE_FLOAT8_E4M3FNUZ] = 1};
  return dtype >= 0 && (size_t)dtype < sizeof sizes ? sizes[dtype] : 0;
}

/* Returns the name of a dtype in NumPy, for messages. */
static inline const char *ec_backend_dtype_name(int32_t dtype) {
  static const char *const names[] = {
      [EC_DTYPE_UINT8] = "uint8",         [EC_DTYPE_INT8] = "int8",
      [EC_DTYPE_INT16] = "int16",         [EC_DTYPE_INT32] = "int32",
      [EC_DTYPE_INT64] = "int64",         [EC_DTYPE_FLOAT16] = "float16",
      [EC_DTYPE_FLOAT32] = "float32",     [EC_DTYPE_FLOAT64] = "float64",
      [EC_DTYPE_COMPLEX64] = "complex64", [EC_DTYPE_COMPLEX128] = "complex128",
      [EC_DTYPE_BOOL] = "bool",           [EC_DTYPE_BFLOAT16] = "bfloat16",
      [EC_DTYPE_UINT16] = "uint16",       [EC_DTYPE_UINT32] = "uint32",
      [EC_DTYPE_UINT64] = "uint64",
      [EC_DTYPE_FLOAT8_E5M2] = "float8_e5m2",
      [EC_DTYPE_FLOAT8_E4M3FN] = "float8_e4m3fn",
      [EC_DTYPE_FLOAT8_E5M2FNUZ] = "float8_e5m2fnuz",
      [EC_DTYPE_FLOAT8_E4M3FNUZ] = "float8_e4m3fnuz"};
  const bool is_known = ec_backend_dtype_size(dtype) != 0;
  return is_known ? names[dtype] : "another dtype";
}

/* A tensor argument. Read-only for the backend, except for the bytes at `data` of its outputs. */
typedef struct ec_backend_tensor {
  void *data;               /* NULL only where nbytes is 0 */
  size_t nbytes;            /* of the current shape */
  size_t capacity;          /* usable bytes at data; of a constant: to the end of its file */
  int32_t dtype; /* an EC_DTYPE_* */
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
    } list; /* for operators only: see operator.h */
  } as;
  void *slot; /* reserved for the host */
} ec_backend_arg;

/* A compile spec: a key and bytes of any length, as written at export. */
typedef struct ec_backend_spec {
  const char *key;
  const void *value;
  size_t size;
} ec_backend_spec;

/* An option of one method, set when it is loaded, or of the process. */
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

/* The inputs of init. All pointers are valid until destroy. */
typedef struct ec_backend_init {
  const char *method;  /* name of the method being loaded */
  const void *payload; /* may be empty (size 0); usually aligned to 16 bytes, without guarantee */
  size_t payload_size;
  const ec_backend_spec *specs;
  size_t spec_count;
  const ec_backend_option *options; /* of this method; refuse unknown keys */
  size_t option_count;
  const void *program; /* identifies delegates of one program; never dereference it */
  const void *instance; /* likewise of one loaded method, which runs its delegates one at a time */
} ec_backend_init;

/* The data that a trace requests: bits of ec_host.trace_wants. */
enum {
  EC_BACKEND_TRACE_TIMES = 1,
  EC_BACKEND_TRACE_VALUES = 2,
  EC_BACKEND_TRACE_INPUTS = 4,
  EC_BACKEND_TRACE_ALTERS = 8 /* trace_value may change data: nodes after it read what it leaves */
};

/* A node inside a delegate that has run. */
typedef struct ec_backend_node {
  uint32_t debug_handle;   /* as the exporter wrote it; UINT32_MAX: none */
  const char *name;        /* "Convolution (NHWC, F32) IGEMM" */
  uint64_t nanoseconds;    /* its duration */
} ec_backend_node;

typedef struct ec_host_call ec_host_call;       /* one call of init or execute */
typedef struct ec_host_program ec_host_program; /* a program inside a payload */

/* The runtime's functions for backends. `call` is the one passed to the current init or execute. */
typedef struct ec_host {
  uint32_t abi_version;
  size_t struct_size; /* later versions append members: check before using them */

  /* Sets the message for the user (what, found, expected) and returns `status`. */
  uint32_t (*fail)(ec_host_call *call, uint32_t status, const char *fmt, ...);

  /* Heap memory, 64-byte aligned, zeroed; NULL on failure. free may be called from destroy. */
  void *(*alloc)(size_t size);
  void (*free)(void *block);
  /* Memory until the current call returns; NULL on failure. */
  void *(*scratch)(ec_host_call *call, size_t size);

  /* Finds data by key, in the program or in a .ptd file; valid until destroy. NOT_FOUND sets no
   * message: set one with fail. */
  uint32_t (*named_data)(ec_host_call *call, const char *key, const void **data, size_t *size);

  /* Sets the shape of an output and updates arg->as.tensor. Fails with a message if the program
   * does not allow the shape. */
  uint32_t (*resize)(ec_host_call *call, ec_backend_arg *arg, size_t rank, const int64_t *sizes);

  /* Runs fn(user, begin, end) over [0, count) in pieces of at least `grain`, possibly on several of
   * the method's threads. Returns when all pieces are done. fn must not use threadpool(). */
  void (*parallel_for)(ec_host_call *call, size_t count, size_t grain,
                       void (*fn)(void *user, size_t begin, size_t end), void *user);

  /* A .pte inside a payload: open one of its methods, run it on args (its inputs, then its
   * outputs), close it. `data` must stay valid until close. Nesting is limited. */
  uint32_t (*program_open)(ec_host_call *call, const void *data, size_t size, const char *method,
                           ec_host_program **out);
  uint32_t (*program_run)(ec_host_call *call, ec_host_program *program, ec_backend_arg *args,
                          size_t count);
  void (*program_close)(ec_host_program *program);

  /* Returns the method's pthreadpool_t, of the pthreadpool that executorch_c was built with; NULL:
   * work on the calling thread. It is valid until destroy. A forked process has lost its threads
   * and gets a new pool: a backend that stores the pointer compares it in execute. */
  void *(*threadpool)(ec_host_call *call);

  /* Marks named data or a part of a payload as rarely read from now on, for example after packing.
   * If it belongs to a mapped file, its pages leave memory; the next access reads them again. The
   * functions of parallel_for may call it. */
  void (*release_pages)(ec_host_call *call, const void *data, size_t size);

  /* Tracing. trace_wants returns the data that the current call should report, usually 0. Report
   * nodes in order of execution with trace_node, and a value computed by the (last) node of a
   * handle with trace_value, which copies it. */
  uint32_t (*trace_wants)(ec_host_call *call);
  void (*trace_node)(ec_host_call *call, const ec_backend_node *node);
  void (*trace_value)(ec_host_call *call, uint32_t debug_handle, const ec_backend_tensor *value);
  /* Reports an input of a node, constants included, if requested. */
  void (*trace_input)(ec_host_call *call, uint32_t debug_handle, const ec_backend_tensor *value);

  /* Charges memory that a library of the backend allocates to this thread's load or call
   * (max_bytes). Returns 0 if it exceeds the limit: the allocation must then fail. */
  int (*charge)(size_t bytes);

  /* Returns the number of threads of the method, for libraries with threads of their own. */
  size_t (*thread_count)(ec_host_call *call);

  /* Returns the number of outputs among the arguments of the current execute, the last ones, which
   * the program does not state: tensors that nothing has written before. 0 outside of execute. */
  size_t (*output_count)(ec_host_call *call);

  /* For backends that translate a payload into a .pte for program_open. */

  /* Copies the schema of an operator, "aten::add.out(Tensor self, ...) -> ...", with its NUL, cut
   * off to `size` bytes. Returns its length; 0: no operator has this name. */
  size_t (*operator_schema)(const char *name, char *text, size_t size);
  /* Runs a program like program_run. Converts arguments in another dim order or of another dtype
   * than the program's; refuses numbers that change, except those of integers and floats with more
   * bits than the program's. A trace has nodes[i] in place of instruction i (nothing if its name is
   * NULL); a message names the node, or the next one with a name. */
  uint32_t (*program_run_nodes)(ec_host_call *call, ec_host_program *program, ec_backend_arg *args,
                                size_t count, const ec_backend_node *nodes, size_t node_count);

  /* Returns 1 if the `size` bytes from `data` on can be read, though they are more than a tensor
   * has: planned memory of the method, and up to 64 bytes after it; data of the program's files and
   * what follows it there. 0: unknown. For libraries that read beyond the end of a tensor. */
  int (*can_read)(ec_host_call *call, const void *data, size_t size);

  /* Resets the state of a program from program_open to that after opening. */
  void (*program_reset)(ec_host_program *program);
} ec_host;

/* The host and the current call, which functions of a backend pass on. */
typedef struct ec_backend_call {
  const ec_host *host;
  ec_host_call *call;
} ec_backend_call;

/* Sets the message and returns the status. `c` points to an ec_backend_call, or to another struct
 * with the members `host` and `call`. */
#define EC_BACKEND_FAIL(c, ...) ((c)->host->fail((c)->call, __VA_ARGS__))

/* Returns the status of a step that failed; allowed only while nothing is owned. */
#define EC_BACKEND_TRY(step)                                                                       \
  do {                                                                                             \
    const uint32_t ec_backend_status = (step);                                                     \
    if (ec_backend_status != EC_BACKEND_OK) return ec_backend_status;                              \
  } while (0)

/* The contents of a payload, as the optional member `describe` presents them: values, and nodes in
 * order of execution. Pointers need to be valid only during the call; texts may be NULL. */
typedef struct ec_backend_inner_value {
  uint32_t id;           /* any number chosen by the backend */
  uint32_t argument;     /* position among the delegate's arguments; UINT32_MAX: not an argument */
  bool constant;
  const char *dtype;     /* "fp32", "qcint8" */
  const char *note;      /* "scale 0.5, zero point 3", ... */
  size_t rank, nbytes;
  const int64_t *sizes;  /* NULL: unknown */
} ec_backend_inner_value;

typedef struct ec_backend_inner_node {
  uint32_t debug_handle; /* as for ec_backend_node */
  const char *name;      /* "Conv2d" */
  const char *note;      /* "stride_height=2, ..." */
  const uint32_t *inputs, *outputs; /* ids of values */
  size_t input_count, output_count;
} ec_backend_inner_node;

typedef struct ec_backend_visitor {
  size_t struct_size; /* later versions append members */
  void *user;
  void (*value)(void *user, const ec_backend_inner_value *value);
  void (*node)(void *user, const ec_backend_inner_node *node);
  /* An operator of the runtime with which the payload is computed, "aten::add.out"; NULL: not
   * wanted. Backends that translate payloads for program_open report those that describing finds,
   * which may be none of them. */
  void (*op)(void *user, const char *name);
} ec_backend_visitor;

/* Load-time delegation: a backend may take kernel calls of a method that no exporter delegated. The
 * runtime shows it runs of calls between which nothing else happens. */

/* A value of a run. Before a call its tensor has upper bounds of sizes; `data` is set for constants
 * only, which are valid until destroy. */
typedef struct ec_backend_value {
  ec_backend_tensor tensor;
  bool is_dynamic;    /* sizes may be smaller in a call */
  bool is_shared;     /* a constant in the files: its address names it in all methods */
  bool is_unread;     /* a result that nothing reads */
  uint32_t number;    /* among the values of the run, from 0 */
  const struct ec_backend_value *same; /* has the same elements in another shape; or NULL */
  /* Of a constant that a kernel computed of constants when the method was loaded: that call. Its
   * first argument may have another one. */
  const struct ec_backend_kernel_call *from;
} ec_backend_value;

/* A call of an operator. Arguments are those of its schema, outs included; numbers have the
 * schema's kinds, lists have items. `slot` of a tensor is its `const ec_backend_value *`. */
typedef struct ec_backend_kernel_call {
  const char *op; /* "aten::add.out" */
  const ec_backend_arg *args;
  size_t count;
} ec_backend_kernel_call;

/* A run of calls, in order. `inputs` and `outputs` are the arguments of execute. A value is read
 * after the call that writes it, and written once. */
typedef struct ec_backend_run {
  size_t struct_size; /* later versions append members */
  const ec_backend_kernel_call *calls;
  const ec_backend_value *const *inputs, *const *outputs;
  size_t call_count, input_count, output_count, value_count;
  bool always; /* take it also where it does not pay, for tests */
  /* By call: init_run may set it for calls that it cannot take among the others, when it returns
   * NOT_SUPPORTED. Runs are then built again without them. */
  bool *refused;
} ec_backend_run;

/* Tensor data of a package. */
typedef struct ec_backend_package_item {
  const char *key; /* NUL-terminated */
  const void *data;
  size_t size;
  int32_t dtype; /* an EC_DTYPE_* */
  uint32_t rank;
  int64_t sizes[16]; /* row-major */
  void *copy;        /* room for a copy, in `copies`; NULL: `data` is aligned to its dtype */
} ec_backend_package_item;

/* A package as a program. The host frees the memory; keys and data may also be bytes of the
 * package, which stays open. */
typedef struct ec_backend_package {
  void *program; /* a .pte, whose external tensors are items */
  size_t program_size;
  ec_backend_package_item *items;
  size_t item_count;
  void *copies; /* the host fills the room of an item when it needs its data; or NULL */
  size_t copies_size;
} ec_backend_package;

typedef struct ec_backend ec_backend;
struct ec_backend {
  uint32_t abi_version; /* EC_BACKEND_ABI_VERSION */
  size_t struct_size;   /* sizeof(ec_backend) as compiled */
  const char *id;       /* as written in the .pte: "XnnpackBackend" */
  const char *version;  /* of the backend, for display; may be NULL */
  void *user;

  /* Returns true if the backend can run on this machine; NULL means yes. */
  bool (*is_available)(const ec_backend *self);

  /* Creates a delegate. On failure *handle is ignored and destroy is not called. */
  uint32_t (*init)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                   const ec_backend_init *init, void **handle);

  /* Runs a delegate: args are its inputs, then its outputs. The program determines the count,
   * unchecked: check it, and kinds, dtypes and shapes. */
  uint32_t (*execute)(const ec_backend *self, const ec_host *host, ec_host_call *call, void *handle,
                      ec_backend_arg *args, size_t count);

  /* Frees a delegate; NULL if there is nothing to free. */
  void (*destroy)(const ec_backend *self, const ec_host *host, void *handle);

  /* Members from here on are optional (NULL), and absent beyond struct_size. */

  /* Options of the process. An unknown key returns NOT_FOUND without a message. get_option receives
   * the key and sets kind and value; a string stays valid until the option is set again. */
  uint32_t (*set_option)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_option *option);
  uint32_t (*get_option)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         ec_backend_option *option);
  /* Keys of these options, NULL-terminated. */
  const char *const *option_keys;

  /* Statistics of a delegate: calls add(user, name, value) for each ("packed_bytes", ...). */
  void (*report)(const ec_backend *self, void *handle,
                 void (*add)(void *user, const char *name, int64_t value), void *user);

  /* Describes a payload without creating a delegate: no options, nothing compiled. The bytes are as
   * untrusted as those of init. */
  uint32_t (*describe)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                       const ec_backend_init *init, const ec_backend_visitor *visitor);

  /* Returns NULL if the backend can take the call, else the reason in a few words. */
  const char *(*refuse_call)(const ec_backend *self, const ec_backend_kernel_call *call);
  /* Creates a delegate for a run of such calls, as init does for a payload (here empty). Returns
   * NOT_SUPPORTED if the calls are better left to the kernels. Its execute returns NOT_SUPPORTED or
   * INVALID_ARGUMENT, and changes nothing but outputs that overlap no input, if it cannot compute
   * with these values or shapes as the kernels do: then they run. */
  uint32_t (*init_run)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                       const ec_backend_init *init, const ec_backend_run *run, void **handle);

  /* Returns why is_available returns false, in a sentence without a full stop that names what is
   * missing; NULL: it does not. */
  const char *(*why_unavailable)(const ec_backend *self);

  /* Resets what a delegate keeps between calls to its state after init: reset() of the method. */
  void (*reset)(const ec_backend *self, const ec_host *host, void *handle);

  /* Returns the number of outputs among the arguments of execute, the last ones: it overwrites all
   * of them and writes no others. The runtime may then leave out copies of them. */
  size_t (*output_count)(const ec_backend *self, void *handle);

  /* Runs a delegate again, whose last execute succeeded, with the same arguments: they have the
   * same shapes and addresses, and other contents. Not in traced calls. Returns NOT_SUPPORTED, and
   * has changed nothing, if execute has to run. */
  uint32_t (*repeat)(const ec_backend *self, const ec_host *host, ec_host_call *call, void *handle);

  /* Opens a file that is no .pte, but a package of this backend's own format (csrc/backend/
   * packages.def): writes it as a program. The methods of the program share state. After a failure
   * the host frees what `out` has, too. */
  uint32_t (*open_package)(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           const void *data, size_t size, ec_backend_package *out);
};

#endif
