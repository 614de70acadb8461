/* Limits for hostile input. Each is far above the sizes that the export flow writes. */
#ifndef EC_CORE_LIMITS_H
#define EC_CORE_LIMITS_H

/* The fuzzer is built with a lower limit, because it meets many endless loops. */
#ifndef EC_INSTRUCTION_LIMIT
#define EC_INSTRUCTION_LIMIT 10000000 /* the reference's */
#endif

enum {
  EC_MAX_RANK = 16,              /* dimensions of a tensor: the reference's kTensorDimensionLimit */
  EC_MAX_FB_DEPTH = 64,          /* nested FlatBuffers tables: flatbuffers::Verifier's default */
  EC_MAX_FB_TABLES = 4000000,    /* visited FlatBuffers tables in one file */
  EC_MAX_NAME = 4096,            /* bytes of a key or name in a lookup */
  EC_MAX_ARENAS = 256,  /* planned memories of a method; the check of each visits every value */
  EC_MAX_METHODS = 4096,         /* methods of a program */
  EC_MAX_NESTED_PROGRAMS = 8,    /* programs inside programs (ExecutorBackend) */
  EC_LOAD_STEPS = 10000000,      /* steps to load a method, plus for each byte of its files: ... */
  EC_LOAD_STEPS_PER_BYTE = 4,
  EC_MAX_INSTRUCTIONS = EC_INSTRUCTION_LIMIT /* executed per call */
};

/* Bytes of one tensor or buffer: ptrdiff_t cannot index larger ones. */
#define EC_MAX_BYTES ((size_t)PTRDIFF_MAX)

#endif
